"""Ways to make it fit: cheapest first, none further than it must, each really fitting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.hardware.small import BIG, WORK
from theseus.hardware.chips import chip, chips
from theseus.hardware.choices import obstacle
from theseus.hardware.fitting import Setting, fit
from theseus.hardware.remedies import ways_to_fit, ways_to_train
from theseus.hardware.sharding import ShardingPolicy

H100, H200, L4 = chip("h100"), chip("h200"), chip("l4")


def test_the_state_alone_says_which_spreading_is_enough() -> None:
    """4.56 billion parameters of 4 bytes are 17 GiB; two sums of gradients and the moments, 68.

    So 85 GiB and activations on a chip of 80. Over 8 chips zero leaves 17 + 68 / 8 = 25.5.
    """
    here = Setting(devices=8, chip=H100, rows=2)
    assert fit(BIG, here).word == "does not fit"
    found = ways_to_fit(BIG, here)
    assert found[0].changes == ("zero",)
    before, after = fit(BIG, here).estimate, found[0].fit.estimate
    assert after.parameters == before.parameters == BIG.parameter_count * 4
    assert (after.gradients, after.optimizer) == (before.gradients // 8, before.optimizer // 8)
    assert found[0].saved == before.total - after.total
    assert ("fsdp",) in [way.changes for way in found]


@pytest.mark.parametrize(
    "setting",
    [
        Setting(devices=8, chip=H100),
        Setting(devices=2, chip=H100, policy=ShardingPolicy(fsdp=True)),
        Setting(devices=4, chip=L4),
        Setting(devices=1, chip=H100),
    ],
)
def test_every_way_fits_and_no_change_of_it_is_idle(setting: Setting) -> None:
    found = ways_to_fit(BIG, setting, others=chips(), count=3)
    assert found
    assert [way.cost for way in found] == sorted(way.cost for way in found)
    for way in found:
        after = way.setting
        assert not obstacle(BIG, after)
        assert way.fit == fit(BIG, after)
        assert way.fit.word == "fits"
        assert way.saved == fit(BIG, setting).estimate.total - way.fit.estimate.total
        undone = [
            replace(after, remat=setting.remat),
            replace(after, rows=setting.rows),
            replace(after, chip=setting.chip),
            replace(after, policy=replace(after.policy, tp=setting.policy.tp)),
            replace(after, policy=after.policy.changed(fsdp=False, zero=False)),
        ]
        for one in undone:
            if one != after and not obstacle(BIG, one) and one.policy.fsdp == after.policy.fsdp:
                assert fit(BIG, one).word != "fits", way.changes


def test_of_several_chips_those_that_are_too_small_can_be_left_out() -> None:
    found = ways_to_fit(BIG, Setting(devices=8, chip=H100, rows=2), named=(H100, H200))
    assert found[1].changes == ("without h100",)
    assert (found[1].saved, found[1].gain) == (0, "140 GiB of memory")


def test_another_chip_is_the_smallest_that_is_large_enough() -> None:
    # 1 chip: 17 × (1 + 2 + 2) = 85 GiB of state and more; no tensor parallelism, nothing to spread
    found = ways_to_fit(BIG, Setting(chip=H100), others=chips())
    other = [way for way in found if way.changes[0].startswith("chip ")]
    assert other
    named = other[0].setting.chip
    assert named is not None
    smaller = [
        one
        for one in chips()
        if one.kind == "gpu" and H100.memory_bytes < (one.memory_bytes or 0) < named.memory_bytes
    ]
    assert all(fit(BIG, Setting(chip=one)).word != "fits" for one in smaller)


def test_where_nothing_helps_nothing_is_offered() -> None:
    endless = replace(BIG, sizes=replace(BIG.sizes, length=2**24))
    assert ways_to_fit(endless, Setting(devices=1, chip=L4), others=chips()) == []


def test_the_nearest_that_can_be_trained_changes_least() -> None:
    found = ways_to_train(WORK, Setting(devices=5, chip=H100))
    assert [way.changes for way in found] == [("6 chips",), ("4 chips",), ("8 chips",)]
    assert all(not obstacle(WORK, way.setting) for way in found)
    both = ways_to_train(WORK, Setting(devices=3, chip=H100, policy=ShardingPolicy(tp=3)))
    assert both[0].changes == ("tp 1",)
