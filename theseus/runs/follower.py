"""The record of a run for its other processes: the first one writes, these only take part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theseus.job import Number
from theseus.runs.run import Run
from theseus.runs.signals import stop_requests


@dataclass
class Follower:
    """What the job of a process other than the first writes to (a `theseus.job.Recorder`).

    Attributes
    ----------
    run
        The run that all of them work on.
    finished, attempt
        As the first process found it.
    stopping
        Why this process was asked to end; the job sees to it that all end together.
    """

    run: Run
    finished: bool
    attempt: int
    stopping: str | None = None

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.run.folder

    def report(self, step: int, values: Mapping[str, Number], *, tokens: int = 0) -> None:
        """Nothing: the first process reports."""

    def event(self, kind: str, **facts: Any) -> None:
        """Nothing: the first process records what happens."""

    def progress(self, done: Number, total: Number | None, *, unit: str, **facts: Any) -> None:
        """Nothing: the first process says how far they are."""

    def ask_to_stop(self, reason: str) -> None:
        """Ask the job to end at its next safe point."""
        self.stopping = reason


@contextmanager
def follow_run(folder: Path, *, finished: bool, attempt: int) -> Iterator[Follower]:
    """Take part in a run that another process has opened."""
    follower = Follower(Run(folder), finished, attempt)
    with stop_requests(follower.ask_to_stop):
        yield follower
