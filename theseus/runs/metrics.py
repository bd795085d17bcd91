"""The metrics of a run: which lines count after an interruption, and what their names mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

RESERVED = frozenset({"v", "step", "tokens", "time", "attempt", "from"})

Role = Literal["loss", "validation", "learning rate", "rate"]

_HELD_OUT = ("val", "valid", "validation", "eval", "test")


def merged(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one record per step, in the order of the steps, as the latest attempts left them.

    An attempt goes on from a checkpoint, so that what earlier attempts reported beyond that step
    was undone: it is dropped. The first line of an attempt says where it went on (`from`); when it
    does not, everything from its own first step on is dropped.
    """
    by_step: dict[int, dict[str, Any]] = {}
    attempt = None
    for line in lines:
        record = plain_numbers(line)
        start = record.pop("from", None)
        step = record["step"]
        if attempt is not None and record.get("attempt") != attempt:
            last = step - 1 if start is None else start
            by_step = {kept: by_step[kept] for kept in by_step if kept <= last}
        attempt = record.get("attempt")
        by_step.setdefault(step, {}).update(record)
    return [by_step[step] for step in sorted(by_step)]


def series(records: Iterable[Mapping[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Return the steps at which a metric was reported, and its values."""
    found = [(record["step"], record[name]) for record in records if name in record]
    return [step for step, _ in found], [value for _, value in found]


def role(name: str) -> Role | None:
    """Return what a metric's name means to a view, or None when it is one among others."""
    *groups, last = name.lower().replace("_", " ").split("/")
    held_out = any(group.startswith(_HELD_OUT) for group in groups)
    if last in {"val loss", "validation loss", "eval loss"} or (last == "loss" and held_out):
        return "validation"
    if last in {"loss", "train loss"}:
        return "loss"
    if last in {"lr", "learning rate"}:
        return "learning rate"
    if last in {"tokens per second", "tokens per s", "tokens s", "tok s"}:
        return "rate"
    return "rate" if name.lower().endswith("tokens/s") else None


def plain_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return named values with NaN and the infinities as numbers again."""
    return {name: _number(value) for name, value in values.items()}


def _number(value: Any) -> Any:
    """Undo how NaN and the infinities are written."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
