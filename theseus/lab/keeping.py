"""Keeping the registry up to date while a browser looks: runs at work are asked, and read.

Nobody else may be asking: a run that was started in a terminal goes on without one. Each run has a
thread of its own, so that a host that does not answer holds up no other; and nothing is asked when
nobody looks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from theseus.errors import UserError
from theseus.lab.threads import start

if TYPE_CHECKING:
    from theseus.dispatch.registry import Entry
    from theseus.dispatch.showing import SentRun

MOST = 16  # runs that are kept up to date at once, the newest ones
_LOOK = 0.5  # seconds between looks for runs that are new
# Seconds between questions about a run: on this machine, elsewhere, while it waits in a queue that
# others ask too, and at most, when nobody answers.
_HERE, _ELSEWHERE, _QUEUED, _LONGEST = 2.0, 5.0, 15.0, 60.0
PATIENCE = 3.0  # seconds in which another process that reads the same log is waited for

_log = logging.getLogger("theseus.lab")


class Limited(threading.Event):
    """An event that counts as set when another one is, or when its time is over."""

    def __init__(self, stop: threading.Event, seconds: float) -> None:
        super().__init__()
        self._stop, self._until = stop, time.monotonic() + seconds

    def is_set(self) -> bool:
        """Return whether to stop."""
        return self._stop.is_set() or time.monotonic() >= self._until

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so long, or until it is time to stop; return whether it is."""
        left = max(self._until - time.monotonic(), 0.0)
        self._stop.wait(left if timeout is None else min(timeout, left))
        return self.is_set()


@dataclass(eq=False)
class Held:
    """A run that is followed closely, for one or several who look at it.

    Attributes
    ----------
    over
        Whether it has ended, and so is followed no more: who comes now begins anew.
    """

    source: SentRun
    stop: threading.Event = field(default_factory=threading.Event)
    holders: int = 0
    over: bool = False


class Keeper:
    """The threads that keep runs up to date.

    Parameters
    ----------
    active
        Returns the runs that have not ended, the newest first.
    told
        Told what is to be said about the connection to a run's host; empty when all is well.
    """

    def __init__(self, active: Callable[[], list[Entry]], told: Callable[[str, str], None]) -> None:
        self._active, self._told = active, told
        self._lock = threading.Lock()
        self._wanted = 0
        self._stop = threading.Event()
        self._held: dict[str, Held] = {}
        self._closed = False

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Keep the runs at work up to date in the meantime."""
        with self._lock:
            self._wanted += 1
            if self._wanted == 1 and not self._closed:
                self._stop = threading.Event()
                start(self._supervise, self._stop, name="keeper")
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if not self._wanted:
                    self._stop.set()

    def hold(self, entry: Entry) -> Held:
        """Follow a run closely, from now to as many calls of `release`."""
        from theseus.dispatch.dispatched import DispatchedRun
        from theseus.dispatch.showing import SentRun

        with self._lock:
            held = self._held.get(entry.id)
            if held is None or held.over:
                source = SentRun(DispatchedRun(entry))
                held = self._held[entry.id] = Held(source)
                if not self._closed:
                    source.begin(held.stop)
            held.holders += 1
            return held

    def release(self, held: Held) -> None:
        """Say that a run need not be followed closely any more."""
        with self._lock:
            held.holders -= 1
            if not held.holders:
                held.stop.set()
                if self._held.get(held.source.id) is held:
                    del self._held[held.source.id]

    def holds(self, run: str) -> bool:
        """Return whether a run is followed closely."""
        return run in self._held

    def close(self) -> None:
        """End all threads, soon."""
        with self._lock:
            self._closed = True
            self._stop.set()
            for held in self._held.values():
                held.stop.set()

    def _supervise(self, stop: threading.Event) -> None:
        kept: dict[str, threading.Thread] = {}
        while not stop.is_set():
            for entry in self._active()[:MOST]:
                known = kept.get(entry.id)
                if known is None or not known.is_alive():
                    name = f"keeps {entry.id}"
                    kept[entry.id] = start(self._keep, entry, stop, name=name)
            stop.wait(_LOOK)

    def _keep(self, entry: Entry, stop: threading.Event) -> None:
        from theseus.dispatch.dispatched import DispatchedRun
        from theseus.dispatch.showing import SentRun

        source = SentRun(DispatchedRun(entry))
        pause = 0.0
        while not stop.is_set():
            if entry.id not in self._held:  # otherwise it is followed closely already
                trouble = self._ask(source, stop)
                self._told(entry.id, trouble)
                usual = pause_of(source.run.entry)
                pause = min(max(pause, usual) * 2, _LONGEST) if trouble else usual
            if source.run.entry.ended:
                return
            stop.wait(pause or _HERE)

    def _ask(self, source: SentRun, stop: threading.Event) -> str:
        """Ask for a run and what is new of it; return what is to be said about its host."""
        try:
            source.once(Limited(stop, PATIENCE))
            return source.facts()["connection"]
        except UserError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - one run that cannot be read ends nothing else
            _log.exception("the run %s cannot be kept up to date", source.id)
            return f"{type(error).__name__}: {error}"


def pause_of(entry: Entry) -> float:
    """Return how many seconds a run is left alone after it was asked, when all is well."""
    if entry.kind == "local":
        return _HERE
    waits = entry.state == "queued" and entry.kind in {"slurm", "volcano"}
    return _QUEUED if waits else _ELSEWHERE
