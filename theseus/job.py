"""A job: a class that you can run, and what it is given to run with.

This module knows nothing of run folders, terminals or notebooks. A job reports through a
`Recorder`; whoever creates the job says what opens one (see `theseus.quick`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from omegaconf import DictConfig

from theseus.config import check_complete, configuration
from theseus.errors import UserError
from theseus.hardware.sharding import ShardingPolicy

Number = int | float


class StopRequested(UserError):
    """The job ended early because it was asked to, after it had saved its state."""


class Recorder(Protocol):
    """What a running job writes to: the only way that facts leave a job."""

    @property
    def folder(self) -> Path:
        """The run's own folder."""

    @property
    def finished(self) -> bool:
        """Whether this very run had already finished: there is nothing to do."""

    @property
    def run(self) -> Any:
        """What the caller of the job gets back (`theseus.runs.Run`)."""

    @property
    def attempt(self) -> int:
        """1 for the first execution of this run, one more for each continuation."""

    @property
    def stopping(self) -> str | None:
        """Why the job should end at the next safe point (`"interrupted"`), or None."""

    def report(self, step: int, values: Mapping[str, Number], *, tokens: int = 0) -> None:
        """Add one line of metrics for `step`, for example `{"train/loss": 3.2}`."""

    def event(self, kind: str, **facts: Any) -> None:
        """Add an event: `checkpoint`, `evaluation`, `resumed`, `warning`, `error`, `done`."""

    def progress(self, done: Number, total: Number | None, *, unit: str, **facts: Any) -> None:
        """Say how far the job is; cheap enough to be called at every step."""


@dataclass(frozen=True)
class RunIdentity:
    """How a run is called: free text, shown as written, made safe where it becomes a path."""

    name: str
    project: str = "general"
    group: str = "default"


class OpenRun(Protocol):
    """Opens the record of one execution of a job; see `theseus.runs`."""

    def __call__(self, job: Job, *, fresh: bool) -> AbstractContextManager[Recorder]:
        """Return a context that holds the run open and records how it ends."""


class Job(ABC):
    """Something that can be run under a name, in a root folder, with a configuration.

    A subclass says in `configs` which classes declare its configuration keys, refuses impossible
    values in `check`, and does its work in `run`.
    """

    CONFIG: ClassVar[type | None] = None

    def __init__(
        self,
        config: DictConfig,
        *,
        root: Path,
        identity: RunIdentity,
        open_run: OpenRun,
        sharding: ShardingPolicy | None = None,
    ) -> None:
        self.config = config
        self.root = root
        self.identity = identity
        self.sharding = sharding or ShardingPolicy()
        self.latest: Any = None  # the run of the latest call (`theseus.runs.Run`)
        self._open_run = open_run

    @classmethod
    def configs(cls) -> tuple[type, ...]:
        """Return the classes whose fields make up the configuration of this job."""
        return () if cls.CONFIG is None else (cls.CONFIG,)

    def check(self) -> None:  # noqa: B027 - most jobs have nothing to refuse
        """Refuse a configuration that cannot work, before anything is allocated or written.

        Called with `configuration(self.config)` active.
        """

    @abstractmethod
    def run(self, recorder: Recorder) -> None:
        """Do the work; called with `configuration(self.config)` active."""

    def __call__(self, *, fresh: bool = False) -> Any:
        """Run the job here and now, and return its run (`theseus.runs.Run`).

        The same job with the same configuration and name is the same run: a finished one is shown
        again, an unfinished one goes on. `fresh=True` starts a new one.
        """
        check_complete(self.config)
        with configuration(self.config):
            self.check()
            with self._open_run(self, fresh=fresh) as recorder:
                self.latest = recorder.run
                if not recorder.finished:
                    self.run(recorder)
        return self.latest
