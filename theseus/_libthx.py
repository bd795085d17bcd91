"""Files that libthx 0.4.0 saved: what has a counterpart is taken over, what has none is told.

Its files hold `execution` (jobs and resources) and `config`. A key that is not in the file had
libthx's own default there, which differs from ours in places; that default is taken over too, so
that the run is the one that the file described.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from theseus import _plain, registry
from theseus._libthx_rules import PRETRAIN, RULES, Rules
from theseus._plain import SpecError
from theseus._summary import value_text
from theseus.code import JobReference
from theseus.errors import did_you_mean
from theseus.hardware.chips import UnknownChipError, chip
from theseus.hardware.resources import Resources, parse_size
from theseus.hardware.sharding import ShardingPolicy


class LibthxWarning(UserWarning):
    """A file of libthx was opened, and something in it has no counterpart here."""


@dataclass(frozen=True)
class Opened:
    """A file of libthx as a recipe of ours; `notes` has a line for each thing not taken over."""

    job: JobReference
    values: dict[str, Any]
    resources: Resources
    notes: tuple[str, ...]


def is_libthx(saved: Mapping[Any, Any]) -> bool:
    """Tell whether a file is one of libthx's, by what is in it."""
    return "v" not in saved and "execution" in saved


def opened(saved: Mapping[str, Any]) -> Opened:
    """Return a file of libthx as a recipe of ours. Nothing in it is imported, resolved or run.

    Raises
    ------
    SpecError
        When its job has no counterpart, or something in it is not what libthx writes.
    """
    notes: list[str] = []
    execution = _plain.mapping("execution", saved["execution"])
    written = _plain.mapping("config", saved.get("config") or {})
    notes += [
        f"{name}: {value_text(value)} — {_NONE}"
        for name, value in saved.items()
        if name not in {"execution", "config"}
    ]
    key, is_builtin = _job(execution, notes)
    resources, again = _resources(execution, notes)
    values: dict[str, Any] = {}
    if again and key == PRETRAIN:
        values["training.remat"] = "block"
    elif again:
        notes.append(f"execution.sharding.activation_checkpointing: true — {_NONE}")
    if is_builtin:
        _take_over(RULES[key], dict(_leaves(written, "")), values, notes)
        configuration = _nested(values)
    else:
        configuration = copy.deepcopy(dict(written))
    return Opened(JobReference(key), configuration, resources, tuple(notes))


# Jobs


def _job(execution: Mapping[str, Any], notes: list[str]) -> tuple[str, bool]:
    """Return the key of the first step's job, and whether we know its keys."""
    steps = _plain.items("execution.steps", execution.get("steps"))
    if not steps:
        msg = "execution.steps: it names no job"
        raise SpecError(msg)
    names = [
        _job_key(f"execution.steps[{number}]", _plain.mapping("a step", step))
        for number, step in enumerate(steps)
    ]
    notes += [
        f"execution.steps[{number}]: {name} — a recipe is one job; make another of this one"
        for number, name in enumerate(names)
        if number
    ]
    for name, value in steps[0].items():
        if name != "job" and value:
            notes.append(
                f"execution.steps[0].{name}: {value_text(value)} — {_STEP.get(name, _NONE)}"
            )
    first = names[0]
    if first in RULES:
        return first, True
    known = registry.keys("job")
    if first in known:  # somebody's own job, with keys of its own
        return first, False
    msg = (
        f"libthx's job '{first}' has no counterpart here{did_you_mean(first, known)} "
        f"(with one: {', '.join(RULES)})"
    )
    raise SpecError(msg)


def _job_key(where: str, step: Mapping[str, Any]) -> str:
    job = step.get("job")
    if isinstance(job, str):
        return _plain.text(f"{where}.job", job)
    given = _plain.mapping(f"{where}.job", job)
    kind = given.get("type")
    if kind == "registered":
        return _plain.text(f"{where}.job.payload", given.get("payload"))
    msg = (
        f"{where}.job: a class that libthx put into the file as '{kind}' cannot be opened here; "
        "write the class for theseus, give it @job('…'), and save a recipe with it"
    )
    raise SpecError(msg)


_NONE = "no counterpart"
_STEP = {
    "base": "name the checkpoint to start from in training.start_from",
    "resume": "a run that is submitted again goes on by itself",
}


# Resources


def _resources(execution: Mapping[str, Any], notes: list[str]) -> tuple[Resources, bool]:
    """Return the resources, and whether activations are computed again."""
    again = False
    given: dict[str, Any] = {}
    for name, value in execution.items():
        where = f"execution.{name}"
        if name == "nonce":
            notes.append(f"{where}: {value} — the id of a run follows from what is run")
        elif name == "chips":
            given["chips"] = _chips(_plain.items(where, value or []), notes)
        elif name in {"cpus", "gpus"}:
            given[name] = value
        elif name == "minimum_memory":
            given["memory"] = _memory(where, value)
        elif name in {"preferred_clusters", "forbidden_clusters"}:
            mine = "clusters" if name.startswith("preferred") else "avoid"
            given[mine] = tuple(_plain.items(where, value or []))
        elif name == "sharding":
            policy = dict(_plain.mapping(where, value or {}))
            again = bool(policy.pop("activation_checkpointing", False))
            given["sharding"] = ShardingPolicy.from_dict(policy)
        elif name != "steps" and value not in (None, [], {}):
            notes.append(f"{where}: {value_text(value)} — {_NONE}")
    return Resources(**given), again


# Their names that are not ours. Its Pro 6000 is of the workstation kind.
_CHIPS = {"b6000": "pro6000", "a100": "a100-sxm4-80gb"}


def _chips(names: list[Any], notes: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    for name in (_plain.text("execution.chips", name) for name in names):
        try:
            found.append(chip(_CHIPS.get(name, name)).name)
        except UnknownChipError:
            notes.append(f"execution.chips: {name} — no such chip here")
        else:
            if name in _CHIPS:
                notes.append(f"execution.chips: {name} — called {_CHIPS[name]} here")
    if names and not found:
        notes.append("execution.chips: none is left, so any chip will do: choose with .chip(…)")
    return tuple(dict.fromkeys(found))


def _memory(where: str, value: Any) -> int | None:
    """Return bytes; a number is MiB in libthx, and `64Gi` is written without a B."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 2**20
    text = _plain.text(where, value)
    return parse_size(f"{text}B" if text.endswith("i") else text)


# Configuration


def _take_over(
    rules: Rules, written: Mapping[str, Any], values: dict[str, Any], notes: list[str]
) -> None:
    values |= rules.added
    values |= rules.same
    for key, value in written.items():
        change = rules.changed.get(key)
        changed = change(value) if change else None
        if key in rules.same:
            values[key] = value
        elif changed is not None:
            values[changed[0]] = changed[1]
        elif key in rules.fixed and value == rules.fixed[key]:
            notes.append(f"{key}: {value_text(value)} — always so here")
        else:
            why = rules.told.get(key, _NONE)
            notes.append(f"{key}: {value_text(value)} — {why}")


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for key, value in flat.items():
        *groups, name = key.split(".")
        inner = whole
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return whole
