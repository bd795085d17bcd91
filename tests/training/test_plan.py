"""How a run is divided, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.config import ConfigError
from theseus.training.plan import plan

SIZES: dict[str, Any] = {
    "tokens": 32_768,
    "batch_size": 8,
    "block_size": 128,
    "per_device_batch_size": 4,
    "devices": 1,
}


def test_the_tutorials_run_has_32_steps_of_2_micro_batches() -> None:
    found = plan(**SIZES)
    assert (found.steps, found.accumulation, found.rows, found.tokens_per_step) == (32, 2, 4, 1024)


def test_rows_per_device_are_derived_where_none_are_named() -> None:
    assert plan(**SIZES | {"per_device_batch_size": None}).per_device_batch_size == 8
    assert plan(**SIZES | {"batch_size": 12, "per_device_batch_size": None}).accumulation == 2
    assert plan(**SIZES | {"batch_size": 2, "per_device_batch_size": None}).accumulation == 1


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"tokens": 1000}, "training.tokens", "8 rows .* 128 = 1,024 tokens"),
        ({"tokens": 0}, "training.tokens", "less than one step"),
        ({"per_device_batch_size": 3}, "training.per_device_batch_size", "these do: 1 2 4 8"),
        ({"per_device_batch_size": 16}, "training.per_device_batch_size", "these do: 1 2 4 8"),
        ({"devices": 3}, "training.batch_size", "6 or 9 can"),
        ({"devices": 16}, "training.batch_size", "; 16 can"),
    ],
)
def test_what_cannot_be_divided_names_the_values_that_can(
    change: dict[str, Any], key: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        plan(**SIZES | change)
    assert caught.value.key == key


@given(
    batch_size=st.integers(1, 600),
    devices=st.integers(1, 16),
    rows=st.none() | st.integers(1, 64),
)
def test_a_plan_covers_the_batch_exactly(batch_size: int, devices: int, rows: int | None) -> None:
    try:
        found = plan(
            tokens=10**9,
            batch_size=batch_size,
            block_size=16,
            per_device_batch_size=rows,
            devices=devices,
        )
    except ConfigError:
        assert batch_size % devices or (rows and (batch_size // devices) % rows)
    else:
        assert found.accumulation * found.per_device_batch_size * devices == batch_size
