"""A recorder that remembers, and jobs without a run folder."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any

from theseus.config import build
from theseus.job import RunIdentity


class Memory:
    """A Recorder that keeps what it is told; `stop_after` asks to stop after so many tokens."""

    def __init__(self, folder: Path, stop_after: int | None = None) -> None:
        self.folder = folder
        self.finished = False
        self.run = self
        self.attempt = 1
        self.stop_after = stop_after
        self.reports: list[tuple[int, dict[str, Any]]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.steps: list[tuple[float, float | None, dict[str, Any]]] = []

    @property
    def stopping(self) -> str | None:
        done = self.steps[-1][0] if self.steps else 0
        return None if self.stop_after is None or done < self.stop_after else "interrupted"

    def report(self, step, values, *, tokens=0) -> None:
        self.reports.append((step, dict(values)))

    def event(self, kind, **facts) -> None:
        self.events.append((kind, facts))

    def progress(self, done, total, *, unit, **facts) -> None:
        self.steps.append((done, total, {"unit": unit, **facts}))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


def run_job(cls, root: Path, values: dict[str, Any] | None = None, **options: Any) -> Memory:
    """Run a job here and return its recorder."""
    memory = Memory(root / "run", **options)

    @contextmanager
    def open_run(job, *, fresh):
        yield memory

    config = build(*cls.configs(), values=values)
    return cls(config, root=root, identity=RunIdentity("test"), open_run=open_run)()
