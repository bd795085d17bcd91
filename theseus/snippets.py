"""What was changed in a configuration, as the shortest code, YAML or command line that repeats it.

Each gives the same configuration back: pasted below `%%theseus`, into a cell, or into a terminal.
"""

from __future__ import annotations

import enum
import keyword
import math
import shlex
from collections.abc import Mapping
from typing import Any

import yaml
from omegaconf import DictConfig

from theseus.config import changed, text_of


def python(config: DictConfig, name: str = "q.config") -> str:
    """Return an assignment for each value that differs from its default."""
    lines = [f"{name}{_path(key)} = {_literal(value)}\n" for key, value in changed(config).items()]
    return "".join(lines)


def as_yaml(config: DictConfig) -> str:
    """Return the changed values as YAML, nested; a group with one of them is one dotted key."""
    return body(changed(config))


def body(values: Mapping[str, Any]) -> str:
    """Return values by their dotted keys as YAML, nested; a group of one is one dotted key."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *groups, last = key.split(".")
        below = tree
        for group in groups:
            below = below.setdefault(group, {})
        below[last] = _plain(value)
    if not tree:
        return ""
    return _dump(_joined(tree, set(values)))


def words(config: DictConfig) -> list[str]:
    """Return the changed values as `key=value` words, as `override` reads them."""
    return [f"{key}={text_of(config, key, value)}" for key, value in changed(config).items()]


def command(config: DictConfig, job: str, file: str = "out.yaml") -> str:
    """Return the command that writes the recipe of a job with these values."""
    parts = ["theseus", "configure", job, file, *words(config)]
    line = " ".join(map(shlex.quote, parts))
    if len(line) <= 80:
        return line
    head = " ".join(map(shlex.quote, parts[:4]))
    return " \\\n  ".join([head, *map(shlex.quote, parts[4:])])


# Python


def _path(key: str) -> str:
    """Return how a key is reached; a name that a mapping has a method of, by its index."""
    return "".join(
        f"[{part!r}]" if keyword.iskeyword(part) or hasattr(DictConfig, part) else f".{part}"
        for part in key.split(".")
    )


def _literal(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return repr(value.name)
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
    return repr(value)


# YAML


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value


def _joined(tree: dict[str, Any], keys: set[str], prefix: str = "") -> dict[str, Any]:
    """Return the tree with every group of a single member written as part of its key."""
    found: dict[str, Any] = {}
    for name, item in tree.items():
        key, value, full = name, item, prefix + name
        while full not in keys and len(value) == 1:
            inner, value = next(iter(value.items()))
            key, full = f"{key}.{inner}", f"{full}.{inner}"
        found[key] = value if full in keys else _joined(value, keys, f"{full}.")
    return found


def _dump(tree: dict[str, Any]) -> str:
    return yaml.dump(
        tree,
        Dumper=yaml.SafeDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=math.inf,
    )
