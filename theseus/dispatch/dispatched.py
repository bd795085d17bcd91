"""A run that works elsewhere, as this machine sees it: its state, log, metrics; cancel and fetch.

Nothing here needs an event loop or a thread of the caller's: every call does its work and returns,
so it is the same in a notebook cell, a thread and a script, and `await run` waits without blocking.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from theseus.dispatch import remote
from theseus.dispatch.inventory import Host, load_inventory
from theseus.dispatch.log_secrets import covered
from theseus.dispatch.logs import LogText, Notice, Piece, RankLines, follow, offset_of_last_lines
from theseus.dispatch.providers.base import PROVIDERS, Handle, Seen
from theseus.dispatch.reaching import reach
from theseus.dispatch.registry import ENDED, Entry, Registry
from theseus.dispatch.secrets import scrubbed, secrets_in
from theseus.dispatch.transport import Progress, Transport, TransportError
from theseus.errors import UserError
from theseus.runs import files, metrics, words
from theseus.runs.summary import SHAPES, Summary
from theseus.runs.summary import Progress as RunProgress

Tell = Callable[[str], None]

_SURE = 4.0  # seconds between two looks that both find nobody, until a run counts as lost
_FRESH = 20.0  # seconds without a word from a running run, until its host is asked about it


class DispatchError(UserError):
    """Something was asked of a run that cannot be done; the message says why."""


@dataclass(frozen=True)
class State:
    """What is known of a run.

    Attributes
    ----------
    word
        `queued`, `preparing`, `running`, `finished`, `failed`, `cancelled`, `lost`; `unknown` when
        the question had no answer, and `last` says what was known before.
    starts
        When a queued run is expected to start, unix seconds.
    """

    word: str
    reason: str | None = None
    starts: float | None = None
    last: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the run is known to have ended."""
        return self.word in ENDED

    def __str__(self) -> str:
        text = self.word
        if self.word == "unknown" and self.last:
            text += f" (last seen {self.last})"
        if self.reason:
            text += f": {self.reason}"
        if self.word == "queued" and self.starts:
            text += f", expected to start {words.moment(self.starts)}"
        return text


class DispatchedRun:
    """A run that was submitted.

        run = c.submit("train-gpt")
        run.state                          # "running"
        for text in run.logs(follow=True): ...
        run.metrics()[-1]["train/loss"]
        run.wait(); run.fetch()

    Every kernel, terminal and server of the user sees the same run: `DispatchedRun.find("train-gpt")`.
    """

    def __init__(self, entry: Entry, registry: Registry | None = None) -> None:
        self._id = entry.id
        self._entry = entry
        self._registry = registry or Registry()

    @classmethod
    def find(cls, word: str) -> DispatchedRun:
        """Return the run that an id, the beginning of one, a name or `latest` means."""
        registry = Registry()
        return cls(registry.find(word), registry)

    # What is known

    @property
    def entry(self) -> Entry:
        """What this machine has written down about the run, as it is now."""
        self._entry = self._registry.get(self._id) or self._entry
        return self._entry

    @property
    def id(self) -> str:
        """The short digest that names the run."""
        return self._id

    @property
    def name(self) -> str:
        """The name as the user wrote it."""
        return self._entry.name

    @property
    def host(self) -> str:
        """Where it was sent, by the name in the inventory."""
        return self._entry.host

    @property
    def folder(self) -> str:
        """The run's own folder on its host."""
        return self._entry.folder

    @property
    def state(self) -> str:
        """What the run does now: asked of its host, unless it has ended.

        `unknown` when the host does not answer.
        """
        return self.look().word

    def look(self, *, thorough: bool = False) -> State:
        """Ask where the run stands: its own status file first, then whoever runs it.

        Parameters
        ----------
        thorough
            Ask whoever runs it although the run has given a sign of life just now.
        """
        entry = self.entry
        if entry.ended and entry.state != "lost":
            return State(entry.state, entry.reason)
        if not entry.handle and self._registry.is_being_submitted(entry.base):
            return State("preparing")
        try:
            return self._look(entry, thorough=thorough)
        except (TransportError, DispatchError) as error:
            return State("unknown", str(error), last=entry.state)

    def _look(self, entry: Entry, *, thorough: bool) -> State:
        host, transport = self._reach()
        status, age = _read_status(host, transport, entry.folder)
        told = str(status.get("state") or "")
        if told in ENDED:
            return self._saw(told, _text(status.get("reason")), status)
        if told == "running" and age is not None and age < _FRESH and not thorough:
            return self._saw("running", None, status)
        if not entry.handle:
            if told and told not in ENDED:
                return self._saw(told, _text(status.get("reason")), status)
            reason = "its submission was interrupted before it was launched; submit it again"
            return self._saw("lost", reason, status)
        handle = Handle(entry.kind, entry.handle)
        seen = PROVIDERS[host.type].state(host, transport, handle)
        if seen.state in ENDED:
            # It may have written its last word between the two questions.
            status, _ = _read_status(host, transport, entry.folder)
            told = str(status.get("state") or "")
            if told in ENDED:
                return self._saw(told, _text(status.get("reason")), status)
            return self._saw_end(transport, entry, seen, status)
        if seen.state == "unknown":
            return State("unknown", seen.reason, last=entry.state)
        if seen.state == "running":
            working = told if told in {"preparing", "running"} else "preparing"
            return self._saw(working, None, status)
        return self._saw(seen.state, seen.reason, status, seen.starts)

    def _saw(
        self,
        word: str,
        reason: str | None,
        status: Mapping[str, Any],
        starts: float | None = None,
    ) -> State:
        self._registry.change(
            self._id,
            state=word,
            reason=reason,
            starts=starts,
            status=dict(status),
            seen=time.time(),
        )
        return State(word, reason, starts)

    def _saw_end(
        self, transport: Transport, entry: Entry, seen: Seen, status: Mapping[str, Any]
    ) -> State:
        """Take in an end that the run itself has not written down."""
        if seen.state == "lost" or entry.kind not in {"local", "plain"}:
            # One look is no proof: file servers and accounting lag behind, and a job that is queued
            # again is cancelled for a moment.
            since, now = entry.status.get("missing"), time.time()
            if not isinstance(since, float) or now - since < _SURE:
                kept = {**status, "missing": since if isinstance(since, float) else now}
                self._registry.change(self._id, status=kept, seen=now)
                return State("unknown", seen.reason, last=entry.state)
        remote.forget_secrets(transport, entry.folder)
        return self._saw(seen.state, seen.reason, status)

    def settle(self, patience: float = 15.0) -> State:
        """Look until it is clear whether a run that nobody has is lost."""
        until = time.monotonic() + patience
        while True:
            state = self.look(thorough=True)
            waiting = "missing" in self.entry.status and state.word == "unknown"
            if not waiting or time.monotonic() > until:
                return state
            time.sleep(0.5)

    def status(self) -> dict[str, Any]:
        """Return the newest `status.json`: attempt, progress, latest values and so on."""
        self.look()
        return dict(self.entry.status)

    def summary(self) -> Summary:
        """Return the few facts that a short view shows, as they were last seen."""
        entry = self.entry
        status = entry.status
        whole = Summary(
            name=entry.name,
            id=entry.id,
            job=entry.job,
            folder=Path(entry.folder),
            state=entry.state,
            reason=entry.reason,
            host=entry.host,
        )
        try:  # what a host wrote may be anything
            return replace(
                whole,
                attempt=int(status.get("attempt") or 1),
                since=_number(status.get("since")),
                elapsed=_number(status.get("elapsed")),
                progress=RunProgress.of(status.get("progress")),
                latest=metrics.plain_numbers(status.get("latest") or {}),
                best=_best(status.get("best")),
                checkpoint=_step(status.get("checkpoint")),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return whole

    # Log and metrics

    def logs(
        self,
        follow: bool = False,
        *,
        rank: int | None = None,
        tail: int | None = None,
        stop: threading.Event | None = None,
        tell: Tell | None = None,
    ) -> Log:
        """Return the log: its text as `str(…)`, or piece by piece in a `for` loop.

        Parameters
        ----------
        follow
            Go on until the run has ended; the local copy keeps every byte.
        rank
            Which node's; None is all of them. Where there are several, each line of the text begins
            with its node's number.
        tail
            Begin with so many of the last lines.
        stop
            Set it, from any thread, to end following.
        tell
            Told what is no part of the log: why a run waits, that its host is out of reach.
        """
        ranks = range(max(self.entry.nodes, 1)) if rank is None else (rank,)
        return Log(self, follow, ranks, tail, stop or threading.Event(), tell or _silence)

    def metrics(self) -> list[dict[str, Any]]:
        """Return one record per reported step, as far as the run has come."""
        folder = self._registry.copies(self._id) / "metrics"
        if not (self._entry.ended and (folder / "metrics.log").exists()):
            self._copy({"metrics": f"{self.folder}/metrics.jsonl"}, folder)
        return metrics.merged(files.read_lines(folder / "metrics.log"))

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Return the steps and the values of one metric, for example `train/loss`."""
        return metrics.series(self.metrics(), name)

    def _copy(self, names: Mapping[str, str], folder: Path) -> None:
        _, transport = self._reach()
        for _event in follow(transport, names, folder, once=True):
            pass

    # What can be done

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the run has ended, and return its state; after `timeout` seconds, as it is."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.3
        while True:
            state = self.look()
            if state.ended:
                return state.word
            left = pause if until is None else min(pause, until - time.monotonic())
            if left <= 0:
                return state.word
            time.sleep(left)
            pause = min(pause * 1.3, 10.0)

    def __await__(self) -> Generator[Any, None, str]:
        import asyncio  # only who awaits has a loop

        return asyncio.to_thread(self.wait).__await__()

    def cancel(self, *, tell: Tell | None = None) -> str:
        """End every process of the run, and return its state.

        Parameters
        ----------
        tell
            Told what could not be made sure of, such as a node that somebody else has by now.

        Raises
        ------
        DispatchError
            When some of it could not be ended.
        """
        state = self.look()
        if state.ended:
            return state.word
        entry = self.entry
        host, transport = self._reach()
        if not entry.handle:
            msg = f"'{self.name}' ({self.id}) was never launched: submit it again, or leave it"
            raise DispatchError(msg)
        seen = PROVIDERS[host.type].cancel(host, transport, Handle(entry.kind, entry.handle))
        if seen.state not in ENDED:
            msg = f"'{self.name}' ({self.id}) is not ended: {seen.reason or seen.state}"
            raise DispatchError(msg)
        found, _ = _read_status(host, transport, entry.folder)
        status = dict(found)
        if status.get("state") not in ENDED:
            now = time.time()
            status |= {"state": "cancelled", "since": now, "reason": "cancelled", "pids": []}
            remote.write_status(transport, entry.folder, status)
        remote.forget_secrets(transport, entry.folder)
        word = str(status["state"])
        if seen.note:
            status["reason"] = f"{status.get('reason') or word}; {seen.note}"
            (tell or _silence)(seen.note)
        self._saw(word, seen.reason if "held" in (seen.reason or "") else status["reason"], status)
        if "held" in (seen.reason or ""):
            msg = f"'{self.name}' ({self.id}) has ended, but {seen.reason}"
            raise DispatchError(msg)
        return word

    def fetch(
        self,
        target: str | Path | None = None,
        *,
        checkpoints: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Bring the run's folder here, and return where it is; what is here already is kept.

        Parameters
        ----------
        target
            The folder; None is one named after the run, in the working folder.
        checkpoints
            With the checkpoints, which may be large.
        progress
            Told how many bytes of how many are here.
        """
        from theseus.dispatch.fetching import fetch

        _, transport = self._reach()
        folder = Path(target) if target is not None else Path(self.folder.rpartition("/")[2])
        fetch(transport, self.folder, folder, checkpoints=checkpoints, progress=progress)
        return folder

    # How it is shown

    def __repr__(self) -> str:
        entry = self.entry
        shape = SHAPES.get(entry.state, "•")
        line = f"{shape} {words.one_line(entry.name)} {entry.id}  {entry.state} on {entry.host}"
        return f"{line}\nfolder  {entry.folder}"

    def _repr_html_(self) -> str:
        from theseus.runs.card import card  # only a notebook needs it

        return card(self.summary(), note=f"`%theseus logs {self.id} -f` follows its log.")

    def _reach(self) -> tuple[Host, Transport]:
        host = host_of(self._entry)
        return host, reach(host)


class Log:
    """The log of a run: `str(log)` is what there is; a `for` loop yields text as it comes."""

    def __init__(
        self,
        run: DispatchedRun,
        goes_on: bool,
        ranks: Sequence[int],
        tail: int | None,
        stop: threading.Event,
        tell: Tell,
    ) -> None:
        self._run, self._goes_on = run, goes_on
        self.ranks = tuple(ranks)
        self._tail, self._stop, self._tell = tail, stop, tell

    def __str__(self) -> str:
        return "".join(self)

    def __repr__(self) -> str:
        return str(Log(self._run, False, self.ranks, self._tail, self._stop, self._tell))

    def __iter__(self) -> Iterator[str]:
        text, by_rank = LogText(), RankLines(len(self.ranks) > 1)
        for event in self.events():
            if isinstance(event, Piece):
                if shown := by_rank.take(event.name, text.feed(event)):
                    yield shown
            elif event.kind != "waiting":
                self._tell(event.text)
        for rank in map(str, self.ranks):
            if shown := by_rank.rest(rank, text.rest(rank)):
                yield shown

    def events(self) -> Iterator[Piece | Notice]:
        """Yield the pieces of the logs as bytes, and what a reader should know.

        A piece's `name` is the number of its node. Secrets that we know are covered.
        """
        run = self._run
        folder = run._registry.copies(run.id) / "log"
        names = {str(rank): f"{run.folder}/log/{rank}.log" for rank in self.ranks}
        ended = _Ended(run, self._tell)
        host, transport = run._reach()
        since: dict[str, int] = {}
        if self._tail is not None:
            for _event in follow(transport, names, folder, once=True):
                pass  # the copy must be complete to know which lines are the last
            since = {name: offset_of_last_lines(folder, name, self._tail) for name in names}
        events = follow(
            transport,
            names,
            folder,
            since=since,
            ended=ended,
            stop=self._stop,
            once=not self._goes_on,
        )
        with contextlib.closing(events):
            yield from covered(events, secrets_in(host.environment))


class _Ended:
    """Asks every few seconds whether a run has ended, and says why it waits."""

    def __init__(self, run: DispatchedRun, tell: Tell) -> None:
        self._run, self._tell = run, tell
        self._told = ""
        self._asked = -10.0
        self._pause = 1.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._asked < self._pause:
            return False
        self._asked = now
        state = self._run.look()
        if state.word == "queued" and str(state) != self._told:
            self._told = str(state)
            self._tell(self._told)
        self._pause = 5.0 if state.word == "queued" else 2.0
        return state.ended


def host_of(entry: Entry) -> Host:
    """Return the host of a run, as the inventory has it now."""
    try:
        return load_inventory(Path(entry.inventory) if entry.inventory else None).host(entry.host)
    except UserError as error:
        msg = f"'{entry.name}' ({entry.id}) is on host '{entry.host}', which is not known now: {error}"
        raise DispatchError(msg) from error


def _read_status(
    host: Host, transport: Transport, folder: str
) -> tuple[Mapping[str, Any], float | None]:
    """Return a run's status and its age; a secret in it (in an error's text) stays there."""
    status, age = remote.read_status(transport, folder)
    return scrubbed(status, secrets_in(host.environment)), age


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _step(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _best(value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, Mapping) or _step(value.get("step")) is None:
        return None
    return value if isinstance(value.get("value"), int | float) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _silence(_: str) -> None:
    return
