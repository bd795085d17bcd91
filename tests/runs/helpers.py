"""A small job that does what tests ask of it, and ways to run it here and in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from theseus.config import build, configure, field
from theseus.job import Job, Recorder, RunIdentity, StopRequested
from theseus.runs import open_run

ROOT = Path(__file__).parents[2]


@dataclass
class SmallConfig:
    steps: int = field("training/steps", default=4)
    note: str = field("training/note", default="")


class SmallJob(Job):
    """Counts to `training/steps`; what else it does is `body`."""

    CONFIG = SmallConfig
    body: Callable[[Recorder], None] | None = None

    def run(self, recorder: Recorder) -> None:
        if self.body is not None:
            self.body(recorder)
            return
        steps = configure(SmallConfig).steps
        for step in range(1, steps + 1):
            if recorder.stopping:
                msg = f"stopped at step {step - 1}"
                raise StopRequested(msg)
            recorder.progress(step, steps, unit="steps")
            recorder.report(step, {"train/loss": 10 / step, "lr": 3e-4}, tokens=step * 8)


def small_job(
    root: Path,
    name: str = "small",
    *,
    project: str = "general",
    group: str = "default",
    body: Callable[[Recorder], None] | None = None,
    watchers: list | None = None,
    **values: object,
) -> SmallJob:
    """Return a job that records under `root` and shows itself to `watchers`."""

    def opened(job: Job, *, fresh: bool = False):
        return open_run(job, fresh=fresh, watchers=watchers or ())

    config = build(SmallConfig, values={"training": values} if values else None)
    job = SmallJob(config, root=root, identity=RunIdentity(name, project, group), open_run=opened)
    job.body = body
    return job


def start_python(code: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start another Python on `code`, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "THESEUS_PROGRESS": "none", **environment},
    )
