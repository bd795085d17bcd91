"""What fits a chip: the margins, and the same sizes as a trainer's own plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hardware.small import WORK
from theseus.hardware.chips import chip
from theseus.hardware.fitting import Fit, Setting, fit, memory, micro_batch, step_sizes
from theseus.hardware.memory import MemoryEstimate
from theseus.hardware.sharding import ShardingPolicy

GIB = 2**30


def needing(total: float) -> MemoryEstimate:
    return MemoryEstimate(int(total), 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("total", "word"),
    [
        # 0.9 of 100 GiB may be filled; nine tenths of that surely, for an estimate that is a
        # tenth too low.
        (81, "fits"),
        (82, "tight"),
        (90, "tight"),
        (91, "does not fit"),
    ],
)
def test_a_tenth_is_kept_free_and_a_tenth_is_doubted(total: float, word: str) -> None:
    assert Fit(needing(total * GIB), 100 * GIB).word == word


def test_what_is_missing_and_what_is_left_is_said() -> None:
    assert str(Fit(needing(50 * GIB), 100 * GIB, "h100")) == (
        "50 GiB of 100 GiB on h100: fits, 40 GiB to spare"
    )
    assert str(Fit(needing(100 * GIB), 100 * GIB)) == (
        "100 GiB of 100 GiB: does not fit, 10 GiB too much"
    )
    assert str(Fit(needing(3 * GIB), None)) == "3.0 GiB on each device"
    assert Fit(needing(3 * GIB), None).word == "unknown"


def test_a_micro_batch_is_the_most_that_divides_up_to_eight() -> None:
    assert micro_batch(WORK, Setting()) == 8  # of 48 rows
    assert micro_batch(WORK, Setting(devices=16)) == 3
    assert micro_batch(WORK, Setting(devices=16, policy=ShardingPolicy(tp=2))) == 6
    assert micro_batch(WORK, Setting(rows=2)) == 2


def test_the_steps_of_accumulation_are_what_is_left() -> None:
    sizes = step_sizes(WORK, Setting(devices=4, rows=3))
    assert (sizes.rows, sizes.accumulation) == (3, 48 // (3 * 4))


@pytest.mark.parametrize(
    ("name", "itemsize", "flash"),
    [
        ("h100", 2, True),
        ("t4", 4, False),  # no bfloat16 units
        ("tpu-v4", 2, False),
        ("cpu", 4, False),
    ],
)
def test_what_is_computed_in_depends_on_the_chip(name: str, itemsize: int, flash: bool) -> None:
    sizes = step_sizes(WORK, Setting(chip=chip(name)))
    assert (sizes.itemsize, sizes.flash) == (itemsize, flash)
    apart = step_sizes(replace(WORK, separate_documents=True), Setting(chip=chip(name)))
    assert not apart.flash


def test_the_state_is_spread_over_the_mesh() -> None:
    whole = memory(WORK, Setting())
    spread = memory(WORK, Setting(devices=4, policy=ShardingPolicy(tp=2, fsdp=True)))
    assert whole.parameters == 4 * WORK.parameter_count
    assert whole.optimizer == 8 * WORK.parameter_count
    assert spread.state * 4 == whole.state


def test_a_chip_without_memory_of_its_own_has_the_machines() -> None:
    assert fit(WORK, Setting(chip=chip("cpu"))).word == "unknown"
    found = fit(WORK, Setting(chip=chip("cpu")), 64 * GIB)
    assert (found.memory, found.word) == (64 * GIB, "fits")
    assert fit(WORK, Setting(chip=chip("h100")), 1).memory == 81559 * 2**20
