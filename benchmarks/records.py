"""What a step's records cost, against writing the same line with `json` and a file.

    python -m benchmarks.records

A step reports five numbers and its progress. Prints the median of the ratios of seven pairs.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

from theseus.config import build
from theseus.job import Job, Recorder, RunIdentity
from theseus.runs import open_run

STEPS, PAIRS = 2000, 7
VALUES = {"train/loss": 3.41, "train/lr": 3e-4, "train/grad_norm": 0.7}


class Reporting(Job):
    """Reports at every step, and does nothing else."""

    def run(self, recorder: Recorder) -> None:
        began = time.thread_time()
        for step in range(STEPS):
            recorder.progress(step, STEPS, unit="steps", loss=3.41, lr=3e-4)
            recorder.report(step, VALUES, tokens=step * 1024)
        self.seconds = (time.thread_time() - began) / STEPS


def recorded(root: Path) -> float:
    """Return the seconds of CPU per step that the records take."""
    job = Reporting(
        build(),
        root=root,
        identity=RunIdentity("records"),
        open_run=lambda job, *, fresh: open_run(job, fresh=fresh, watchers=()),
    )
    job(fresh=True)
    return job.seconds


def bare(root: Path) -> float:
    """Return the seconds of CPU per step of writing one line of JSON."""
    began = time.thread_time()
    with (root / "bare.jsonl").open("w") as file:
        for step in range(STEPS):
            file.write(json.dumps({"step": step, "tokens": step * 1024, **VALUES}) + "\n")
            file.flush()
    return (time.thread_time() - began) / STEPS


def main() -> None:
    """Print the pairs and their median ratio."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, PAIRS + 1):
            ours, line = recorded(Path(folder)), bare(Path(folder))
            ratios.append(ours / line)
            print(f"pair {number}: records {ours * 1e6:.0f} µs, bare line {line * 1e6:.0f} µs")
    print(f"median ratio {statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
