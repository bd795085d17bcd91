"""What is drawn of curves: few points, every peak, gaps where there is no number."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from theseus.notebook import front

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")

STATIC = Path(front.__file__).parent / "static"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Return what the functions of chart.js say, asked in one go."""
    program = """
      const chart = await import(process.argv[1]);
      const values = Array.from({ length: 10000 }, (_, n) => Math.cos(n / 50));
      values[5432] = 99;
      values[7000] = null;
      const one = { step: values.map((_, n) => n), tokens: values.map((_, n) => n * 64),
                    time: values.map((_, n) => 1000 + n), value: values };
      const thin = chart.thinned(one, 2000);
      const store = new chart.CurveStore();
      const piece = (run, steps, more = {}) => ({
        run, label: run, train: { step: steps, tokens: steps.map((n) => n * 10),
          time: steps.map((n) => 50 + n), value: steps.map((n) => 1 / n) },
        validation: { step: [], tokens: [], time: [], value: [] }, ...more });
      store.take([piece("a", [1, 2, 3, 4]), piece("b", [1, 2])]);
      store.take([piece("a", [3], { after: 2 })]);
      const lines = chart.linesOf(store, "time", 0.5);
      for (let n = 0; n < 30; n++) store.take([piece("c", Array.from({ length: 1000 }, (_, k) => n * 1000 + k + 1))]);
      console.log(JSON.stringify({
        thin: { count: thin.step.length, peak: Math.max(...thin.value.filter((v) => v !== null)),
                gap: thin.value.includes(null), ordered: thin.step.every((s, n) => n === 0 || s > thin.step[n - 1]) },
        smooth: chart.smoothed([1, 1, 1, null, 4], 0.9), none: chart.smoothed([3, 4], 0),
        steps: store.runs.get("a").train.step, lines: lines.map(({ label, run, x, y, raw }) => ({ label, run, x, y, raw })),
        kept: store.runs.get("c").train.step.length,
        ticks: [chart.ticks(0, 10, 5), chart.ticks(3.41, 3.47, 4), chart.ticks(5, 5, 4)],
        logTicks: [chart.logTicks(1, 100), chart.logTicks(3, 4)],
        short: [0, 3.41234, 0.00031, 1240, 3200000, 2.5e9].map(chart.short),
        span: [8, 130, 3600, 11100].map(chart.span),
      }));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program, STATIC / "chart.js"],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_a_thinned_curve_keeps_its_peaks_its_gaps_and_its_order(found: dict[str, Any]) -> None:
    thin = found["thin"]
    assert 1000 < thin["count"] <= 2000
    assert (thin["peak"], thin["gap"], thin["ordered"]) == (99, True, True)


def test_smoothing_counts_the_first_values_in_full_and_keeps_gaps(found: dict[str, Any]) -> None:
    *same, gap, last = found["smooth"]
    assert same == pytest.approx([1, 1, 1])
    assert gap is None
    # three ones and a four, each weighing 0.9 of the one after it
    weights = [0.9**3, 0.9**2, 0.9, 1]
    assert last == pytest.approx((sum(weights[:3]) + 4) / sum(weights))
    assert found["none"] == [3, 4]


def test_what_a_resumed_run_undid_is_forgotten(found: dict[str, Any]) -> None:
    assert found["steps"] == [1, 2, 3]


def test_time_counts_from_the_first_point_of_each_run(found: dict[str, Any]) -> None:
    first = found["lines"][0]
    assert (first["run"], first["x"]) == ("a", [0, 1, 2])
    assert first["raw"] == [1, 1 / 2, 1 / 3]
    assert first["y"][0] == 1


def test_a_curve_in_memory_is_bounded(found: dict[str, Any]) -> None:
    assert found["kept"] <= 20_000


def test_axes_have_round_numbers(found: dict[str, Any]) -> None:
    assert found["ticks"][0] == [0, 2, 4, 6, 8, 10]
    assert found["ticks"][1] == pytest.approx([3.42, 3.44, 3.46])
    assert found["ticks"][2] == [5]
    assert found["logTicks"] == [[1, 2, 5, 10, 20, 50, 100], pytest.approx([3, 3.5, 4])]
    assert found["short"] == ["0", "3.412", "3.1e-4", "1,240", "3.2M", "2.5G"]
    assert found["span"] == ["8 s", "2 min 10 s", "1 h", "3 h 5 min"]
