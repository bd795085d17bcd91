"""Batches on their way to the devices."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from theseus.data.mixture import Batch
from theseus.training.feed import ahead, micro_batches
from theseus.training.plan import TrainingPlan


class Counting:
    """A mixture whose row r of step s holds the number 100 s + r."""

    def batch(self, step: int, rows: slice) -> Batch:
        numbers = np.arange(rows.start, rows.stop)[:, None] + 100 * step
        return Batch(numbers, numbers, numbers, None, None)


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("rows", [4, 8, 16])
def test_all_hosts_and_micro_batches_together_read_the_global_batch(
    processes: int, rows: int
) -> None:
    plan = TrainingPlan(10, 16, 1, rows, 1)
    mixture = cast("Any", Counting())
    share = plan.rows // processes
    slices = [slice(p * share, (p + 1) * share) for p in range(processes)]
    parts = [micro_batches(mixture, plan, 3, part).tokens for part in slices]
    together = np.concatenate(parts, axis=1).ravel()
    np.testing.assert_array_equal(together, np.arange(300, 316))


def test_an_error_comes_where_its_item_would_have() -> None:
    def make(step: int) -> int:
        if step == 3:
            raise OSError
        return step

    items: Iterator[int] = ahead(make, 0, 10)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError):  # noqa: PT011 - the very error of the test
        next(items)


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    items = ahead(lambda step: step, 0, 1000)
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
