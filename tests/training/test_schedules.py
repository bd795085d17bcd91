"""Learning rates, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from theseus.config import ConfigError
from theseus.training.schedules import WSD, Cosine


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


@pytest.mark.parametrize("schedule", [WSD, Cosine])
def test_a_run_of_one_step_trains(schedule: type) -> None:
    assert float(schedule(lr=1.0).build(1)(0)) > 0
