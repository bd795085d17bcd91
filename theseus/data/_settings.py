"""Settings as they are written beside data and compared later."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from theseus.config import configure, keys_of


def settings_of(*classes: type | None) -> dict[str, Any]:
    """Return dotted key → plain value of what these classes read from the active configuration."""
    found: dict[str, Any] = {}
    for cls in classes:
        if cls is not None:
            found.update(_settings(configure(cls)))
    return found


def _settings(instance: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    keys = keys_of(type(instance))
    for item in dataclasses.fields(instance):
        value = getattr(instance, item.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found.update(_settings(value))
        else:
            key = keys.get(item.name, item.name)
            # What a reader of the file will compare with: tuples are lists there.
            found[key] = json.loads(json.dumps(value, default=str))
    return found


def differences(made_with: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return one line per key whose values differ, such as `data.seed: 1 there, 2 here`."""
    nothing = object()
    found = []
    for key in sorted({*made_with, *wanted}):
        there, here = made_with.get(key, nothing), wanted.get(key, nothing)
        if there != here:
            shown = ["not set" if value is nothing else _short(value) for value in (there, here)]
            found.append(f"{key}: {shown[0]} there, {shown[1]} here")
    return found


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "…"
