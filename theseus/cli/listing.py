"""The list of jobs, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theseus import registry
from theseus.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from theseus.config import KeyRecord


def jobs(keys: Sequence[str], *, verbose: bool, as_json: bool) -> str:
    """Return the registered jobs: those named, or all. Nothing is imported unless `verbose`."""
    chosen = _chosen(keys)
    if as_json:
        return json.dumps([_record(entry, verbose) for entry in chosen], indent=1)
    if not verbose:
        width = max((len(entry.key) for entry in chosen), default=0)
        return "\n".join(f"{entry.key:<{width}}  {entry.help}".rstrip() for entry in chosen)
    return "\n\n".join(_with_keys(entry) for entry in chosen)


def _chosen(keys: Sequence[str]) -> list[registry.Entry]:
    entries = registry.entries("job")
    chosen: list[registry.Entry] = []
    for key in keys:
        group = key.rstrip("/") + "/"
        found = [one for one in entries if one.key == key or one.key.startswith(group)]
        if not found:
            hint = did_you_mean(key, [one.key for one in entries])
            msg = f"no job is registered as '{key}'{hint} (`theseus jobs` lists them)"
            raise UserError(msg)
        chosen += [one for one in found if one not in chosen]
    return chosen if keys else entries


def _described(entry: registry.Entry) -> list[KeyRecord]:
    from theseus.config import describe

    return describe(entry.load())


def _with_keys(entry: registry.Entry) -> str:
    from theseus._summary import aligned, value_text
    from theseus.config import MISSING

    try:
        records = _described(entry)
    except ImportError as error:
        return f"{entry.key}  {entry.help}\n  its keys cannot be shown here: {error}"
    rows = [
        (
            record.key,
            type_text(record),
            "required" if record.default is MISSING else value_text(record.default),
            record.help,
        )
        for record in records
    ]
    return "\n".join([f"{entry.key}  {entry.help}", *(f"  {line}" for line in aligned(rows))])


def type_text(record: KeyRecord) -> str:
    """Return a key's type with its choices or bounds: `int ≥ 1`."""
    text = record.type
    if record.choices is not None and not all(repr(one) in text for one in record.choices):
        text += f" ({', '.join(map(str, record.choices))})"
    if record.ge is not None and record.le is not None:
        text += f" {record.ge:g} to {record.le:g}"
    elif record.ge is not None:
        text += f" ≥ {record.ge:g}"
    elif record.le is not None:
        text += f" ≤ {record.le:g}"
    return text


def _record(entry: registry.Entry, verbose: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"key": entry.key, "help": entry.help}
    if verbose:
        record["keys"] = [_key_record(one) for one in _described(entry)]
    return record


def _key_record(record: KeyRecord) -> dict[str, Any]:
    from theseus.config import MISSING

    required = record.default is MISSING
    return {
        "key": record.key,
        "type": record.type,
        "required": required,
        "default": None if required else _plain(record.default),
        "help": record.help,
        "choices": None if record.choices is None else [_plain(one) for one in record.choices],
        "ge": record.ge,
        "le": record.le,
        "log": record.log,
        "owners": list(record.owners),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return (
        value if isinstance(value, str | int | float | None) else getattr(value, "name", str(value))
    )
