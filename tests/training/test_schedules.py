"""Learning rates, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from theseus.config import ConfigError
from theseus.training.schedules import WSD, WSDS, Constant, Cosine


def test_wsd_rises_stays_and_falls() -> None:
    rate = WSD(lr=1.0, warmup_pct=0.2, decay_pct=0.4, final_lr_frac=0.1).build(10)
    found = [float(rate(step)) for step in range(10)]
    # Two steps up, four at the peak, four down by a quarter of 0.9 each.
    expected = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.775, 0.55, 0.325, 0.1]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_cosine_rises_and_falls_to_its_floor() -> None:
    rate = Cosine(lr=2.0, warmup_pct=0.25, final_lr_frac=0.1).build(8)
    found = [float(rate(step)) for step in range(8)]
    expected = [1.0, 2.0] + [
        2 * (0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * k / 6))) for k in range(1, 7)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_phases_that_overlap_are_refused() -> None:
    with pytest.raises(ConfigError, match="overlap"):
        WSD(lr=1.0, warmup_pct=0.6, decay_pct=0.6, final_lr_frac=0.0).build(10)


def test_constant_rises_and_stays() -> None:
    rate = Constant(lr=2.0, warmup_pct=0.5).build(6)
    np.testing.assert_allclose([float(rate(s)) for s in range(6)], [2 / 3, 4 / 3, 2, 2, 2, 2])


def test_wsds_decays_at_the_end_of_every_cycle() -> None:
    rate = WSDS(lr=1.0, warmup_pct=0.1, decay_pct=0.4, cycles=2, final_lr_frac=0.2).build(10)
    found = [float(rate(step)) for step in range(10)]
    # One step up; each cycle of five ends with two steps down by 0.4 each.
    expected = [1.0, 1.0, 1.0, 0.6, 0.2, 1.0, 1.0, 1.0, 0.6, 0.2]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("steps", "cycles"), [(10, 3), (11, 4), (7, 7), (100, 9)])
def test_every_cycle_of_wsds_ends_at_the_floor_whatever_the_division(
    steps: int, cycles: int
) -> None:
    rate = WSDS(lr=1.0, warmup_pct=0.0, decay_pct=0.9, cycles=cycles, final_lr_frac=0.5).build(
        steps
    )
    at_floor = [step for step in range(steps) if float(rate(step)) == pytest.approx(0.5)]
    assert len(at_floor) == cycles
    assert at_floor[-1] == steps - 1


def test_cycles_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than the 2 steps"):
        WSDS(lr=1.0, warmup_pct=0.0, cycles=3).build(2)
    with pytest.raises(ConfigError, match="overlap"):
        WSDS(lr=1.0, warmup_pct=0.3, decay_pct=0.5, cycles=3).build(30)


@pytest.mark.parametrize("schedule", [WSD, Cosine, Constant])
def test_a_run_of_one_step_trains(schedule: type) -> None:
    assert float(schedule(lr=1.0).build(1)(0)) > 0
