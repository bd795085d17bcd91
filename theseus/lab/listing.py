"""The runs of the registry as the browser lists them; what did not change is not read again."""

from __future__ import annotations

import math
import os
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theseus.dispatch.registry import Entry, Registry
from theseus.errors import UserError
from theseus.lab.base import RequestError
from theseus.runs.files import RecordError

WEEK = 7 * 86400  # seconds for which a run that has ended is listed, as `theseus runs` does
_LINE = 200  # characters of the last line of a log
_TAIL = 16 * 1024  # bytes in which that is looked for

_Stamp = tuple[int, ...]


@dataclass
class _Known:
    """A run as it was read: when its files change, it is another."""

    stamp: _Stamp
    version: int
    entry: Entry
    record: dict[str, Any] | None = None  # made when it is asked for


class Listing:
    """All runs, with a mark that tells one state of the registry from the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Marks of another server, or of this one before it was started anew, mean nothing here.
        self._born = secrets.token_hex(4)
        self._version = 0
        self._known: dict[str, _Known] = {}
        self._gone: dict[str, int] = {}
        self._trouble: dict[str, str] = {}

    def mark(self) -> str:
        """Look at the registry, and return a text that differs when something in it does."""
        with self._lock:
            self._look()
            return self._mark()

    def heard(self, run: str, trouble: str) -> None:
        """Take in whether a run's host was heard: what is to be said about it, or nothing."""
        with self._lock:
            known = self._known.get(run)
            if self._trouble.get(run, "") == trouble or known is None:
                return
            self._trouble[run] = trouble
            self._version += 1
            known.version = self._version

    def active(self) -> list[Entry]:
        """Return the runs that have not ended, the newest first."""
        with self._lock:
            self._look()
            found = [one.entry for one in self._known.values() if not one.entry.ended]
        return sorted(found, key=_newest_first)

    def runs(self, since: str | None = None, *, everything: bool = False) -> dict[str, Any]:
        """Return the runs, the newest submission first.

        Parameters
        ----------
        since
            A mark: only what has changed after it. One that is not known gives the whole list.
        everything
            Also those that ended over a week ago.
        """
        with self._lock:
            self._look()
            after = self._version_of(since)
            recent = time.time() - WEEK
            chosen = [
                one
                for one in self._known.values()
                if one.version > after
                and (everything or not one.entry.ended or one.entry.submitted > recent)
            ]
            return {
                "v": 1,
                "mark": self._mark(),
                "whole": after < 0,
                "runs": [self._told(one) for one in sorted(chosen, key=_by_submission)],
                "gone": [run for run, version in self._gone.items() if 0 <= after < version],
            }

    def run(self, run: str) -> dict[str, Any]:
        """Return one run, with the facts of its card as a notebook keeps them.

        Raises
        ------
        RequestError
            When there is none.
        """
        from theseus.dispatch.dispatched import DispatchedRun
        from theseus.dispatch.showing import SentRun
        from theseus.notebook.curve_view import CurveFeed
        from theseus.notebook.record import saved

        entry = entry_of(run)
        with self._lock:
            self._look()
            known = self._known.get(run)
            told = self._told(known) if known is not None else {}
        source = SentRun(DispatchedRun(entry))
        curves = CurveFeed(run, entry.name, source.metrics_file())
        curves.read()
        return {**told, "card": saved(source.facts(), curves.losses())}

    # What is known

    def _mark(self) -> str:
        return f"{self._born}-{self._version}"

    def _version_of(self, mark: str | None) -> int:
        """Return which state a mark means; -1 when it is none of ours."""
        born, _, version = (mark or "").partition("-")
        known = born == self._born and version.isascii() and version.isdecimal()
        return int(version) if known and int(version) <= self._version else -1

    def _look(self) -> None:
        """Take in what has changed in the registry's folder."""
        registry = Registry()
        folder = str(registry.folder)
        there = {run: _stamp(folder, run, entry) for run, entry in _files(registry.folder)}
        changed = [
            run
            for run, stamp in there.items()
            if run not in self._known or self._known[run].stamp != stamp
        ]
        gone = self._known.keys() - there.keys()
        read = {run: entry for run in changed if (entry := _entry(registry, run)) is not None}
        gone |= {run for run in changed if run not in read and run in self._known}
        if not read and not gone:
            return
        self._version += 1
        for run in gone:
            del self._known[run]
            self._gone[run] = self._version
        for run, entry in read.items():
            self._gone.pop(run, None)
            self._known[run] = _Known(there[run], self._version, entry)

    def _told(self, one: _Known) -> dict[str, Any]:
        if one.record is None:
            one.record = record_of(one.entry)
        told = {**one.record, "connection": self._trouble.get(one.entry.id, "")}
        since = told.pop("since")
        if told["elapsed"] is None and since is not None and told["state"] == "running":
            told["elapsed"] = max(time.time() - since, 0.0)
        return told


def entry_of(run: str) -> Entry:
    """Return the entry of the run with this very id.

    Raises
    ------
    RequestError
        When there is none, or it cannot be read.
    """
    entry = _entry(Registry(), run)
    if entry is None:
        raise RequestError(404, f"there is no run {run[:80]!r} on this machine")
    return entry


def record_of(entry: Entry) -> dict[str, Any]:
    """Return what a list shows of a run, as plain values; texts in it are texts, never HTML."""
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.runs.summary import SHAPES

    summary = DispatchedRun(entry).summary()
    copies = Registry().copies(entry.id)
    progress = summary.progress
    return {
        **_finite(entry.plain()),
        "ended": entry.ended,
        "shape": SHAPES.get(entry.state, "•"),
        "headline": summary.headline,
        "position": summary.position,
        "remaining": summary.remaining,
        "fraction": None if progress is None else progress.fraction,
        "since": summary.since,
        "elapsed": summary.elapsed,
        "can": ["fetch", "resubmit"] if entry.ended else ["cancel", "fetch"],
        "spark": _spark(copies / "metrics" / "metrics.log"),
        "last_line": _last_line(entry, copies / "log"),
    }


def _last_line(entry: Entry, folder: Path) -> str:
    """Return what the run has printed last, as a terminal would be left with it."""
    from theseus.dispatch.log_secrets import secrets_of
    from theseus.lab import covering
    from theseus.notebook.log_view import plain

    size = covering.size_of(folder, "0")
    if not size:
        return ""
    try:
        hidden = secrets_of(entry)
    except UserError:
        return ""  # what to cover is not known
    found = covering.parts(folder, "0", max(size - _TAIL, 0), size, hidden)
    text = b"".join(part.data for part in found).decode("utf-8", "replace")
    for line in reversed(text.split("\n")):
        if shown := plain(line).strip():
            return shown[:_LINE]
    return ""


def _spark(path: Path) -> list[float | None]:
    from theseus.lab.spark import spark

    return spark(path)


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as found:
            for one in found:
                if one.name.endswith(".json") and not one.name.startswith("."):
                    try:
                        yield one.name.removesuffix(".json"), one.stat()
                    except FileNotFoundError:  # replaced or removed just now
                        continue
    except FileNotFoundError:
        return


def _stamp(folder: str, run: str, entry: os.stat_result) -> _Stamp:
    stamp = [entry.st_mtime_ns, entry.st_size, entry.st_ino]
    for path in (f"{folder}/{run}/metrics/metrics.log", f"{folder}/{run}/log/0.log"):
        try:
            # A text, twice a second for each of a thousand runs: a path takes four times as long.
            stamp.append(os.stat(path).st_size)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            stamp.append(-1)
    return tuple(stamp)


def _entry(registry: Registry, run: str) -> Entry | None:
    """Return an entry; one that cannot be read is left out, as the registry does."""
    try:
        entry = registry.get(run)
    except (UserError, RecordError, TypeError, ValueError):
        return None
    return entry if entry is not None and entry.id == run and _is_sound(entry) else None


def _is_sound(entry: Entry) -> bool:
    """Return whether an entry's values are of their kinds: one that is not must hide no other."""
    texts: list[Any] = [
        entry.name, entry.project, entry.group, entry.job, entry.host, entry.cluster, entry.kind,
        entry.folder, entry.chips, entry.state, entry.reason or "",
    ]  # fmt: skip
    numbers: list[Any] = [
        entry.submitted, entry.seen, entry.nodes, entry.attempt, entry.starts or 0,
    ]  # fmt: skip
    status: Any = entry.status
    return (
        all(isinstance(one, str) for one in texts)
        and isinstance(status, dict)
        and all(isinstance(one, int | float) and math.isfinite(one) for one in numbers)
    )


def _by_submission(one: _Known) -> tuple[float, str]:
    return _newest_first(one.entry)


def _newest_first(entry: Entry) -> tuple[float, str]:
    return -entry.submitted, entry.id


def _finite(value: Any) -> Any:
    """Return plain values with what JSON has no word for as text, as records have it."""
    from theseus.runs import files

    return files.decode(files.encode(value), "a run")


__all__ = ["Listing", "entry_of", "record_of"]
