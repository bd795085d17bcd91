"""A view of curves is sent each point once, few of them, and told what a resumed run undid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from theseus.notebook.curve_view import BATCH, KEPT, POINTS, CurveFeed
from theseus.runs import metrics


class Metrics:
    """A file of metrics that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.feed = CurveFeed("abc", "train-gpt", path)

    def add(self, *records: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.writelines(json.dumps({"v": 1, **record}) + "\n" for record in records)

    def steps(self, first: int, last: int, attempt: int = 1, **more: Any) -> None:
        self.add(
            *(
                {"step": n, "tokens": 10 * n, "time": 5.0 + n, "attempt": attempt,
                 "train/loss": 100 / n, **(more if n == first else {})}
                for n in range(first, last + 1)
            )
        )  # fmt: skip

    def drawn(self) -> dict[str, list[Any]]:
        """Read until there is nothing more; return what a view has then."""
        have: dict[str, list[Any]] = {"step": [], "value": []}
        while (piece := self.feed.read()) is not None:
            if "after" in piece:
                kept = [n for n, step in enumerate(have["step"]) if step <= piece["after"]]
                have = {name: [have[name][n] for n in kept] for name in have}
            assert len(piece["train"]["step"]) <= BATCH
            for name in have:
                have[name] += piece["train"][name]  # type: ignore[literal-required]
        return have


@pytest.fixture
def file(tmp_path: Path) -> Metrics:
    return Metrics(tmp_path / "metrics.jsonl")


def test_points_come_once_with_where_they_lie(file: Metrics) -> None:
    assert file.feed.read() is None
    file.add(
        {"step": 1, "tokens": 64, "time": 1000.25, "attempt": 1, "train/loss": 3.123456789},
        {"step": 2, "tokens": 128, "time": 1001.5, "attempt": 1, "val/loss": 3.5, "lr": 0.1},
    )
    assert file.feed.read() == {
        "run": "abc",
        "label": "train-gpt",
        "train": {"step": [1], "tokens": [64], "time": [1000.25], "value": [3.12346]},
        "validation": {"step": [2], "tokens": [128], "time": [1001.5], "value": [3.5]},
    }
    assert file.feed.read() is None


def test_a_line_that_is_being_written_waits_for_its_end(file: Metrics) -> None:
    file.path.write_text('{"v": 1, "step": 1, "train/lo')
    assert file.feed.read() is None
    with file.path.open("a") as more:
        more.write('ss": 2.0}\n')
    piece = file.feed.read()
    assert piece is not None
    assert piece["train"]["value"] == [2.0]


def test_what_a_resumed_run_undid_is_undone_in_the_view(file: Metrics) -> None:
    file.steps(1, 50)
    file.drawn()
    file.steps(31, 40, attempt=2, **{"from": 30})
    piece = file.feed.read()
    assert piece is not None
    assert piece["after"] == 30
    # and a view that opens later sees the same
    late = Metrics(file.path)
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    want = metrics.series(metrics.merged(lines), "train/loss")
    assert late.drawn()["step"] == want[0] == [*range(1, 41)]


def test_a_view_that_opens_late_gets_few_points_with_every_peak(file: Metrics) -> None:
    file.steps(1, 30_000)
    file.add({"step": 30_001, "attempt": 1, "train/loss": 999.0})
    have = file.drawn()
    assert len(have["step"]) <= POINTS
    assert have["step"] == sorted(have["step"])
    assert max(have["value"]) == 999.0
    file.steps(30_002, 30_010)
    assert file.drawn()["step"] == [*range(30_002, 30_011)]


def test_what_is_kept_here_is_bounded_too(file: Metrics) -> None:
    for start in range(0, 60_000, 5000):
        file.steps(start + 1, start + 5000)
        file.drawn()
    assert len(file.feed.train.step) <= KEPT


def test_values_that_are_no_numbers_and_lines_that_are_no_records_do_no_harm(file: Metrics) -> None:
    file.path.write_text(
        '{"step": 1, "train/loss": "NaN"}\nnot JSON\n[1]\n{"train/loss": 2}\n'
        '{"step": 2, "train/loss": "Infinity"}\n{"step": "x"}\n{"step": 3, "train/loss": "text"}\n'
    )
    assert file.drawn() == {"step": [1, 2], "value": [None, None]}
    assert not file.feed.losses()
