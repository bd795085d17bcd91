"""What a view of curves is sent: the losses of a run as they are reported, in few points."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from theseus.notebook.plots import Losses, Series, decimated
from theseus.runs.metrics import plain_numbers, role

POINTS = 2000  # of a curve when a view opens
KEPT = 20_000  # of a curve in memory, until it is thinned
BATCH = 400  # in one message
_READ = 1 << 20  # bytes of metrics at once


class Points(TypedDict):
    """One curve as columns; a value that is no finite number is None."""

    step: list[int]
    tokens: list[float | None]
    time: list[float | None]
    value: list[float | None]


class Piece(TypedDict):
    """What is new of the curves of one run; `after` undoes what lay beyond that step."""

    run: str
    label: str
    after: NotRequired[int]
    train: Points
    validation: Points


@dataclass
class _Column:
    """One curve here: what was sent, and what is to be."""

    step: list[int] = field(default_factory=list)
    tokens: list[float | None] = field(default_factory=list)
    time: list[float | None] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    sent: int = 0

    def add(self, record: Mapping[str, Any], value: float) -> None:
        self.step.append(record["step"])
        self.tokens.append(_finite(record.get("tokens"), 12))
        self.time.append(_finite(record.get("time"), 12))
        self.value.append(float(value))

    def forget_after(self, step: int) -> None:
        count = len(self.step)
        while count and self.step[count - 1] > step:
            count -= 1
        for column in (self.step, self.tokens, self.time, self.value):
            del column[count:]
        self.sent = min(self.sent, count)

    def thin(self, limit: int) -> None:
        """Keep few of the points; of those that were sent already, nothing is sent again."""
        if len(self.step) <= limit:
            return
        places, _ = decimated(range(len(self.step)), self.value, limit)
        self.sent = sum(place < self.sent for place in places)
        self.step = [self.step[place] for place in places]
        self.tokens = [self.tokens[place] for place in places]
        self.time = [self.time[place] for place in places]
        self.value = [self.value[place] for place in places]

    def take(self, count: int) -> Points:
        """Return the next points that were not sent."""
        chosen = slice(self.sent, self.sent + count)
        self.sent = min(self.sent + count, len(self.step))
        return Points(
            step=self.step[chosen],
            tokens=self.tokens[chosen],
            time=self.time[chosen],
            value=[_finite(value, 6) for value in self.value[chosen]],
        )


class CurveFeed:
    """The curves of one run, for one view: each call of `read` returns what is new."""

    def __init__(self, run: str, label: str, path: Path) -> None:
        self.run, self.label, self.path = run, label, path
        self.train, self.validation = _Column(), _Column()
        self._position = 0
        self._rest = b""
        self._attempt: Any = None
        self._undone: int | None = None  # what a view must forget beyond
        self._began = False

    def read(self) -> Piece | None:
        """Return the next points, at most a batch of each curve; None when there are none."""
        self._take_in()
        train, validation = self.train.take(BATCH), self.validation.take(BATCH)
        if not train["step"] and not validation["step"] and self._undone is None:
            return None
        piece = Piece(run=self.run, label=self.label, train=train, validation=validation)
        if self._undone is not None:
            piece["after"] = self._undone
            self._undone = None
        return piece

    def losses(self) -> Losses:
        """Return what is known as a curve that can be drawn here."""
        return Losses(
            Series(list(self.train.step), list(self.train.value)),
            Series(list(self.validation.step), list(self.validation.value)),
        )

    def _take_in(self) -> None:
        """Read what the file has got since."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position)
                while data := file.read(_READ):
                    self._position += len(data)
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    for line in lines:
                        self._line(line)
                    for column in (self.train, self.validation):
                        if len(column.step) > KEPT:
                            column.thin(POINTS)
        except FileNotFoundError:
            return
        if not self._began:
            self._began = True
            for column in (self.train, self.validation):
                column.thin(POINTS)

    def _line(self, line: bytes) -> None:
        try:
            record = plain_numbers(json.loads(line))
            step = int(record["step"])
        except (AttributeError, KeyError, TypeError, ValueError):
            return  # what a host wrote may be anything
        attempt = record.get("attempt")
        if self._attempt is not None and attempt != self._attempt:
            start = record.get("from")
            after = start if isinstance(start, int) else step - 1
            for column in (self.train, self.validation):
                column.forget_after(after)
            self._undone = after if self._undone is None else min(after, self._undone)
        self._attempt = attempt
        for name, value in record.items():
            meaning = role(name)
            if meaning in {"loss", "validation"} and isinstance(value, int | float):
                (self.train if meaning == "loss" else self.validation).add(
                    {**record, "step": step}, value
                )


def _finite(value: Any, digits: int) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{digits}g}")
