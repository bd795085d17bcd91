"""The losses of a run in a few points, from a file of metrics of any size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from theseus.notebook.plots import decimated
from theseus.runs.metrics import plain_numbers, role

POINTS = 60
_WHOLE = 16 * 1024  # bytes up to which a file is read whole
_SAMPLE = 2048  # bytes of each sample of a longer one: a line is a tenth of that


def spark(path: Path) -> list[float | None]:
    """Return at most `POINTS` losses in the order of their steps; None is no finite number."""
    steps: list[int] = []
    values: list[float] = []
    for record in _records(path):
        step, value = record.get("step"), _loss(record)
        if not isinstance(step, int) or value is None:
            continue
        while steps and steps[-1] >= step:  # a resumed run has undone these
            steps.pop(), values.pop()
        steps.append(step)
        values.append(value)
    _, few = decimated(steps, values, POINTS)
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in few]


def _loss(record: dict[str, Any]) -> float | None:
    for name, value in record.items():
        if isinstance(value, int | float) and _is_loss(name):
            return float(value)
    return None


@lru_cache(maxsize=1024)
def _is_loss(name: str) -> bool:
    return role(name) == "loss"


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in _lines(path):
        try:
            yield plain_numbers(json.loads(line))
        except (AttributeError, TypeError, ValueError):
            continue  # what a host wrote may be anything


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of the file; of a long one the first, some between, and the last."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size <= _WHOLE:
                file.seek(0)
                yield from file.read().split(b"\n")[:-1]
                return
            last = POINTS - 1
            for number in range(POINTS):
                file.seek(number * (size - _SAMPLE) // last)
                *lines, _ = file.read(_SAMPLE).split(b"\n")
                # The first begins with a line, the last ends with the newest one, and what lies
                # between begins somewhere in a line.
                yield from lines[:1] if not number else lines[1:2] if number < last else lines[-1:]
    except FileNotFoundError:
        return
