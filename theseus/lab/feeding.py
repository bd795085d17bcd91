"""What a stream of one run is sent: log, curves and facts as they grow, never more than fits.

The reading is done on a thread, one call at a time; nothing here knows of a connection.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from theseus.dispatch.secrets import Secret, forms_of, scrubbed
from theseus.dispatch.showing import SentRun
from theseus.lab.tailing import Part, Tail
from theseus.notebook.curve_view import CurveFeed

TICK = 0.25  # seconds between readings
RATE = 140_000  # bytes of log in a second, as JSON
_BLOCK = 4096  # bytes that are read of a log at once
_ROWS = 200  # lines of metrics in one event
CARD = 1.0  # seconds between looks at the facts

Event = tuple[str, Any]


class RunFeed:
    """One run for one reader.

    Parameters
    ----------
    source
        The run, which somebody keeps up to date.
    logs
        Which logs, and where to begin in each; None is near its end.
    points
        From which line on metrics are wanted; None: not at all.
    curves
        Whether the curves of the losses are wanted, in few points, as charts take them.
    hidden
        What is covered.
    attempt
        Returns which attempt of the run is at work. Another one than at first ends the feed: it is
        followed anew.
    """

    def __init__(
        self,
        source: SentRun,
        logs: Mapping[str, int | None],
        *,
        points: int | None,
        curves: bool,
        hidden: tuple[Secret, ...],
        attempt: Callable[[], int] = lambda: 1,
    ) -> None:
        self._source = source
        lanes = source.lanes()
        self._tails = [
            Tail(lanes[rank].parent, rank, hidden, start) for rank, start in logs.items()
        ]
        self._rows = None if points is None else Rows(source.metrics_file(), points, hidden)
        self._curves = CurveFeed(source.id, source.name, source.metrics_file()) if curves else None
        self._curves_begun = False
        self._card: dict[str, Any] | None = None
        self._card_at = self._filled_at = 0.0
        self._credit = float(RATE * TICK)
        self._attempt = attempt
        self._first = attempt()
        self.ended = self.again = False

    def read(self) -> list[Event]:
        """Return what is new, in the order in which it is to be sent."""
        last = self._source.settled()
        events = [*self._facts(last), *self._points(), *self._log(last)]
        more = any(kind in {"points", "curves"} for kind, _ in events)
        self.ended = self.again or (last and not more and all(tail.done for tail in self._tails))
        return events

    def place(self) -> str:
        """Return where a reader is who has had everything so far, for one who comes again."""
        offsets = ",".join(f"{tail.name}:{tail.at}" for tail in self._tails)
        return f"{offsets};{self._rows.at if self._rows is not None else ''}"

    def _facts(self, last: bool) -> Iterator[Event]:
        now = time.monotonic()
        if now - self._card_at < CARD and not last:
            return
        self._card_at = now
        self.again = self._attempt() != self._first
        card: dict[str, Any] = dict(self._source.facts())
        if card != self._card:
            self._card = card
            yield "card", card

    def _points(self) -> Iterator[Event]:
        if self._rows is not None and (rows := self._rows.read()) is not None:
            yield "points", rows
        if self._curves is None:
            return
        piece = self._curves.read()
        if piece is not None:
            if not self._curves_begun:
                # Whoever reads again, over a new connection, begins anew.
                self._curves_begun = True
                piece["after"] = -1
            yield "curves", piece

    def _log(self, last: bool) -> Iterator[Event]:
        now = time.monotonic()
        self._credit = min(self._credit + RATE * (now - self._filled_at), RATE * TICK)
        self._filled_at = now
        for tail in self._tails:
            parts: list[Part] = []
            while self._credit > 0 and not tail.done:
                part = tail.read(_BLOCK, last=last)
                if part is not None:
                    parts.append(part)
                    self._credit -= len(json.dumps(part["text"], ensure_ascii=False).encode())
                elif not tail.behind and not last:
                    break
            yield from (("log", part) for part in joined(parts))


def joined(parts: list[Part]) -> list[Part]:
    """Return parts of one log with those put together that follow each other."""
    found: list[Part] = []
    for part in parts:
        if found and found[-1]["to"] == part["from"]:
            found[-1]["to"] = part["to"]
            found[-1]["text"] += part["text"]
        else:
            found.append(part)
    return found


class Rows:
    """The lines of a file of metrics from one on, as they come."""

    def __init__(self, path: Path, start: int, hidden: tuple[Secret, ...]) -> None:
        self._path, self._hidden = path, hidden
        self._forms = forms_of(hidden)
        self._skip = start
        self.at = start
        self._position = 0
        self.more = False

    def read(self, most: int = _ROWS) -> dict[str, Any] | None:
        """Return the next lines; one that cannot be read is counted and left out."""
        lines = self._lines(most)
        if not lines:
            return None
        first, self.at = self.at, self.at + len(lines)
        rows = [row for line in lines if (row := _row(line)) is not None]
        # To look for secrets in each name takes longer than all else: only where there are any.
        text = json.dumps(rows, ensure_ascii=False)
        if any(form in text for form in self._forms):
            rows = scrubbed(rows, self._hidden)
        return {"from": first, "to": self.at, "rows": rows}

    def _lines(self, most: int) -> list[bytes]:
        found: list[bytes] = []
        self.more = False
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                while len(found) < most:
                    line = file.readline()
                    if not line.endswith(b"\n"):
                        return found  # it is still being written
                    self._position += len(line)
                    if self._skip:
                        self._skip -= 1
                    else:
                        found.append(line)
                self.more = True
        except FileNotFoundError:
            return found
        return found


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line, parse_constant=str)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    row.pop("v", None)
    return row
