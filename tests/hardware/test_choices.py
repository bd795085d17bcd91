"""Which choices are legal, and the reason for each that is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.small import WORK
from theseus.hardware.choices import Choice, choices, obstacle
from theseus.hardware.fitting import Setting, memory
from theseus.hardware.sharding import ShardingPolicy


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        (Setting(), ""),
        (Setting(devices=3, policy=ShardingPolicy(tp=2)), "tp 2 does not divide 3 chips"),
        (Setting(devices=5, nodes=2), "5 chips cannot be spread evenly over 2 nodes"),
        (Setting(devices=4, policy=ShardingPolicy(tp=4)), "6 heads do not divide by 4"),
        (Setting(devices=3, policy=ShardingPolicy(tp=3)), "a vocabulary of 1,000 does not divide by 3"),
        (Setting(devices=5), "a batch of 48 rows does not divide by 5"),
        (Setting(devices=5, policy=ShardingPolicy(fsdp=True)), "a width of 96 does not divide by 5"),
        (Setting(devices=4, rows=5), "micro-batches of 5 do not divide the 12 rows of each device"),
        (Setting(devices=4, rows=12), ""),
        (Setting(devices=8, policy=ShardingPolicy(tp=2, zero=True)), ""),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_named(setting: Setting, why: str) -> None:
    assert obstacle(WORK, setting) == why


def legal(offered: tuple[Choice, ...]) -> list[object]:
    return [one.value for one in offered if one.legal]


def test_only_what_divides_is_offered() -> None:
    found = choices(WORK, Setting(devices=4))
    assert legal(found.tp) == [1, 2]
    assert {one.value: one.why for one in found.tp} == {
        1: "",
        2: "",
        3: "tp 3 does not divide 4 chips",
        4: "6 heads do not divide by 4",
        6: "tp 6 does not divide 4 chips",
        8: "tp 8 does not divide 4 chips",
    }
    assert legal(found.devices) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]
    assert legal(found.rows) == [None, 1, 2, 3, 4, 6, 12]
    assert found.rows[0].note == "6"
    assert legal(found.remat) == ["none", "dots", "block"]


def test_spreading_over_one_chip_is_said_to_change_nothing() -> None:
    assert choices(WORK, Setting()).fsdp[1].note == "changes nothing: there is one chip"
    tensor = Setting(devices=2, policy=ShardingPolicy(tp=2))
    assert choices(WORK, tensor).zero[1].note == "changes nothing: tp takes all chips"
    both = Setting(devices=2, policy=ShardingPolicy(fsdp=True))
    assert choices(WORK, both).zero[1].note == "fsdp does this, too"


def test_what_stands_in_the_way_already_is_no_fault_of_other_choices() -> None:
    found = choices(WORK, Setting(devices=5))
    assert legal(found.remat) == ["none", "dots", "block"]
    assert 5 not in legal(found.devices)
    assert found.fsdp[1].why == "a width of 96 does not divide by 5"


def test_of_an_unknown_model_only_the_numbers_are_known() -> None:
    found = choices(None, Setting(devices=4))
    assert legal(found.tp) == [1, 2, 4]
    assert legal(found.rows) == [None]


@given(
    devices=st.integers(1, 64),
    tp=st.integers(1, 8),
    fsdp=st.booleans(),
    zero=st.booleans(),
    rows=st.none() | st.integers(1, 16),
    nodes=st.integers(1, 4),
)
def test_whatever_is_legal_has_an_estimate(devices, tp, fsdp, zero, rows, nodes) -> None:
    policy = ShardingPolicy(tp, fsdp, zero)
    setting = Setting(devices, nodes, policy, rows=rows)
    offered = choices(WORK, setting)
    for one in offered.tp:
        if one.legal:
            chosen = replace(setting, policy=replace(policy, tp=one.value))
            parts = memory(WORK, chosen)
            # Every device has its part of everything: together at least one whole model.
            assert parts.parameters * devices >= 4 * WORK.parameter_count
