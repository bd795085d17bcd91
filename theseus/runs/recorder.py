"""What a running job writes to: metrics, events, log and status of its run."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from theseus.job import Number
from theseus.runs import files, metrics, processes, words
from theseus.runs.claim import Claim
from theseus.runs.log import Log
from theseus.runs.pace import Pace
from theseus.runs.run import EVENTS, METRICS, STATUS, Run
from theseus.runs.summary import Progress, Summary
from theseus.runs.watching import Audience, Opening, Watcher

BUSY, IDLE = 1.0, 5.0  # seconds between two writes of the status, with and without news

File = TypeVar("File")

_EVENT_RESERVED = frozenset({"v", "time", "attempt", "kind"})
_role = lru_cache(maxsize=256)(metrics.role)


class RunRecorder:
    """The record of one execution of a run (a `theseus.job.Recorder`).

    Metrics and events are on disk when the call returns. Progress, heartbeat and views are taken
    care of by `tick`, which another thread calls a few times a second: the job never waits for
    them.
    """

    def __init__(self, claim: Claim, watchers: Iterable[Watcher]) -> None:
        self._claim = claim
        self._lock = threading.RLock()
        self._audience = Audience(watchers, self._warn)
        self._news: deque[Callable[[Watcher], None]] = deque()
        self._began = time.monotonic()
        self._stopping: str | None = None
        self._stop_announced = False
        # Progress: as the job last said it, what of that has been taken in, and how fast it goes.
        self._said: tuple[Number, Number | None, str, Mapping[str, Any], float] | None = None
        self._taken_in: object = None
        self._progress: Progress | None = None
        self._pace = Pace()
        # What `status.json` says beside the state.
        self._latest = dict(metrics.plain_numbers(claim.status.get("latest") or {}))
        self._best: Mapping[str, Any] | None = claim.status.get("best")
        self._checkpoint: int | None = claim.status.get("checkpoint")
        self._since = time.time()
        self._heartbeat = 0
        self._written = self._began
        self._moved = False
        self._status_failed = False
        self._summary: Summary | None = None
        self._resumed_from: int | None = None
        self._first_line = claim.attempt > 1
        self._metrics: files.Lines | None = None
        self._events: files.Lines | None = None
        self._log: Log | None = None

    # What a job asks.

    @property
    def run(self) -> Run:
        """The run that is being recorded."""
        return self._claim.run

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self._claim.run.folder

    @property
    def finished(self) -> bool:
        """Whether this very run had already finished: there is nothing to do."""
        return self._claim.finished

    @property
    def attempt(self) -> int:
        """1 for the first execution of this run, one more for each continuation."""
        return self._claim.attempt

    @property
    def stopping(self) -> str | None:
        """Why the job should end at the next safe point (`"interrupted"`), or None."""
        return self._stopping

    # What a job says.

    def report(self, step: int, values: Mapping[str, Number], *, tokens: int = 0) -> None:
        """Add one line of metrics for `step`, for example `{"train/loss": 3.2}`.

        Raises
        ------
        ValueError
            When a metric has one of the names that every line has (`step`, `time`, …).
        """
        plain = {name: _plain(value) for name, value in values.items()}
        if not metrics.RESERVED.isdisjoint(plain):
            taken = ", ".join(sorted(metrics.RESERVED & plain.keys()))
            msg = f"every line of metrics has {taken} already; give the metric another name"
            raise ValueError(msg)
        step, tokens = int(step), int(tokens)
        record = {"step": step, "tokens": tokens, "time": round(time.time(), 3), **plain}
        record["attempt"] = self._claim.attempt
        with self._lock:
            lines, log = self._opened(self._metrics), self._opened(self._log)
            if self._first_line:
                self._first_line = False
                if self._resumed_from is not None:
                    record["from"] = self._resumed_from
            lines.append(record)
            self._latest.update(plain)
            for name, value in plain.items():
                if _role(name) == "validation":
                    self._keep_best(step, value)
            if self._audience:
                self._news.append(lambda view: view.report(step, tokens, plain))
        # Plainer than in a view, and at a fifth of the cost: this is the job's own thread.
        shown_values = "  ".join([f"{name} {value:.6g}" for name, value in plain.items()])
        log.line(f"step {step}  {shown_values}")

    def event(self, kind: str, **facts: Any) -> None:
        """Add an event: `checkpoint`, `evaluation`, `resumed`, `warning`, `error` and so on.

        Two of them are understood: `checkpoint` and `resumed`, with the `step` that they are at.
        """
        if not _EVENT_RESERVED.isdisjoint(facts):
            taken = ", ".join(sorted(_EVENT_RESERVED & facts.keys()))
            msg = f"every event has {taken} already; give the fact another name"
            raise ValueError(msg)
        record = {"time": round(time.time(), 3), "attempt": self._claim.attempt, "kind": kind}
        with self._lock:
            self._opened(self._events).append({**record, **facts})
            step = facts.get("step")
            if kind == "checkpoint" and step is not None:
                self._checkpoint = int(step)
            elif kind == "resumed" and step is not None:
                self._resumed_from = int(step)
                if "best" in facts:  # as it was at that step: what came after is done again
                    self._best = facts["best"]
            if self._audience:
                self._news.append(lambda view: view.event(kind, facts))
        details = [f"  {name} {words.one_line(str(value))}" for name, value in facts.items()]
        self._opened(self._log).line("".join([words.one_line(kind), *details]))

    def progress(self, done: Number, total: Number | None, *, unit: str, **facts: Any) -> None:
        """Say how far the job is; cheap enough to be called at every step."""
        self._said = (done, total, unit, facts, time.monotonic())

    # What happens around a job.

    @property
    def log(self) -> Log:
        """The log of this execution."""
        return self._opened(self._log)

    def ask_to_stop(self, reason: str) -> None:
        """Ask the job to end at its next safe point; safe to call from a signal handler."""
        self._stopping = reason

    def open(self) -> None:
        """Begin to record, unless the run had finished; tell the views."""
        if not self.finished:
            self._progress = self.run.summary().progress
            self._metrics = files.Lines(self.folder / METRICS)
            self._events = files.Lines(self.folder / EVENTS)
            self._log = Log(self.run.log_path, self._warn)
            self.event("opened", **processes.this_process())
            self._news.clear()  # the views learn of it by `started`
        opening = Opening(self.attempt, self.finished)
        self._audience.tell(lambda view: view.started(self.run, opening))

    def tick(self) -> None:
        """Pass on what is new to the views, and keep the status file alive."""
        self._announce_stop()
        self._moved = self._pass_on() or self._moved
        if time.monotonic() - self._written < (BUSY if self._moved else IDLE):
            return
        try:
            self._write_status("running", durable=False)
        except files.RecordError as error:
            # Not the end of a training: the disk may have room again in a minute. A report that
            # cannot be written is, and says so in the job's own thread.
            if not self._status_failed:
                self._status_failed = True
                self._warn(str(error))

    def close(self, state: str, *, reason: str | None = None, exit_status: int | None = 0) -> None:
        """End the record and tell the views."""
        try:
            if not self.finished:
                self._since = time.time()
                self._pass_on()
                self._announce_stop()
                self.event("ended", state=state, reason=reason)
                self._news.clear()  # the views learn of it by `ended`
                self._write_status(state, reason=reason, exit_status=exit_status)
            self._audience.tell(lambda view: view.ended(self.run))
        finally:
            for file in (self._metrics, self._events, self._log):
                if file is not None:
                    file.close()
            self._metrics = self._events = self._log = None

    def _announce_stop(self) -> None:
        if self._stopping is not None and not self._stop_announced:
            self._stop_announced = True
            self.event("stopping", reason=self._stopping)

    def _pass_on(self) -> bool:
        """Tell the views all that is new; return whether the job is further than before."""
        moved = self._take_in_progress()
        if self._audience:
            summary = self._summary
            if moved or self._news or summary is None:
                summary = self._summary = self._summarised()
            while self._news:
                self._audience.tell(self._news.popleft())
            self._audience.tell(lambda view: view.update(summary))
        return moved

    def _summarised(self) -> Summary:
        run = self.run
        with self._lock:
            latest = dict(self._latest)
        return Summary(
            name=run.name,
            id=run.id,
            job=run.job,
            folder=run.folder,
            state="running",
            attempt=self.attempt,
            host=str(run.record["host"]),
            since=self._since,
            elapsed=self._elapsed(),
            progress=self._progress,
            latest=latest,
            best=self._best,
            checkpoint=self._checkpoint,
        )

    def _elapsed(self) -> float:
        return round(self._claim.elapsed + time.monotonic() - self._began, 3)

    def _take_in_progress(self) -> bool:
        said = self._said
        if said is None or said is self._taken_in:
            return False
        self._taken_in = said
        done, total, unit, facts, when = said
        done, total = _plain(done), None if total is None else _plain(total)
        self._pace.add(when, done, unit)
        remaining = self._pace.remaining(done, total)
        self._progress = Progress(done, total, unit, facts, self._pace.rate, remaining)
        return True

    def _write_status(
        self,
        state: str,
        *,
        reason: str | None = None,
        exit_status: int | None = None,
        durable: bool = True,
    ) -> None:
        self._written = time.monotonic()
        self._moved = False
        self._heartbeat += 1
        with self._lock:
            latest = dict(self._latest)
        status = {
            "state": state,
            "since": self._since,
            "reason": reason,
            "exit": exit_status,
            "attempt": self._claim.attempt,
            "pids": [processes.this_process()] if state == "running" else [],
            "gpus": processes.visible_gpus() if state == "running" else [],
            "heartbeat": self._heartbeat,
            "time": time.time(),
            "elapsed": self._elapsed(),
            "stopping": self._stopping,
            "progress": None if self._progress is None else self._progress.plain(),
            "latest": latest,
            "best": self._best,
            "checkpoint": self._checkpoint,
        }
        files.write_json(self.folder / STATUS, status, durable=durable)

    def _keep_best(self, step: int, value: Number) -> None:
        if math.isfinite(value) and (self._best is None or value < self._best["value"]):
            self._best = {"value": value, "step": step}

    def _warn(self, message: str) -> None:
        try:
            self.event("warning", message=message)
        except files.RecordError:  # the disk that could not be written is where this would go
            logging.getLogger(__name__).warning("%s", message)

    def _opened(self, file: File | None) -> File:
        if file is None:
            msg = f"the run in '{self.folder}' is not being executed: nothing can be recorded"
            raise RuntimeError(msg)
        return file


def _plain(value: Any) -> Number:
    """Return a number of Python for one of numpy or JAX."""
    if type(value) in {float, int}:
        return value  # type: ignore[no-any-return] # narrowed by its exact type
    if hasattr(value, "item"):
        value = value.item()
    return int(value) if isinstance(value, int) else float(value)
