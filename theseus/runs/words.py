"""Numbers, times and free text as people read them; the same in every view."""

from __future__ import annotations

import math
import unicodedata
from datetime import datetime
from pathlib import Path

_SHORT_UNITS = {"tokens": "tok", "token": "tok", "documents": "doc", "steps": "step"}


def count(number: float) -> str:
    """Return a count with thousands separated: `1,240`."""
    return f"{number:,.0f}"


def number(value: float) -> str:
    """Return a measured value with about four digits: `3.412`, `3.0e-4`, `1,240`."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == 0 or (isinstance(value, int) and size < 1e9):
        return f"{value:,}" if isinstance(value, int) else "0"
    if size < 1e-3 or size >= 1e9:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    digits = 4 if size < 0.1 else 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    return f"{value:,.{digits}f}"


def rate(per_second: float, unit: str) -> str:
    """Return a rate: `182k tok/s`, `3.2 step/s`."""
    unit = _SHORT_UNITS.get(unit, unit)
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if per_second >= size:
            scaled = per_second / size
            return f"{scaled:.{0 if scaled >= 100 else 1}f}{letter} {unit}/s"
    return f"{per_second:.{0 if per_second >= 100 else 1 if per_second >= 1 else 2}f} {unit}/s"


def duration(seconds: float) -> str:
    """Return a time span in at most two units: `8 s`, `2 min 10 s`, `3 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, below, below_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            many, rest = divmod(whole, size)
            small = rest // below
            return f"{many} {unit} {small} {below_unit}" if small else f"{many} {unit}"
    return f"{whole} s"


def remaining(seconds: float) -> str:
    """Return an estimate of a time span, without false precision: `41 min left`."""
    if seconds >= 600:
        seconds = round(seconds / 60) * 60
    elif seconds >= 60:
        seconds = round(seconds / 10) * 10
    return f"{duration(max(round(seconds), 1)) if seconds >= 10 else f'{max(round(seconds), 1)} s'} left"


def moment(seconds: float) -> str:
    """Return a time of the UTC clock in the reader's zone, to the minute."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def one_line(text: str) -> str:
    """Return free text that is safe to show in a line: what would move or hide is made visible."""
    return "".join(c if c.isprintable() else _visible(c) for c in text)


def _visible(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def clipped(text: str, width: int) -> str:
    """Return `text`, or its beginning and an ellipsis when it is longer than `width`."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def shown_path(path: Path) -> str:
    """Return a path as short as it can be written: from the working folder, or from home."""
    for base, prefix in ((Path.cwd, ""), (Path.home, "~/")):
        try:
            return one_line(prefix + str(path.relative_to(base())))
        except (ValueError, OSError, RuntimeError):  # elsewhere; the folder is gone; no home
            continue
    return one_line(str(path))
