"""Plain values of a saved file: read strictly, compared strictly, never interpolated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from theseus.errors import UserError, did_you_mean


class SpecError(UserError):
    """A recipe or a resource request that cannot be meant, or a file that is not one."""


# OmegaConf reads `${…}` in any text; a name, or the source of a class, means it literally.


def escape(text: str) -> str:
    r"""Return text that OmegaConf keeps as it is: `${` becomes `\${`."""
    return re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + r"\${", text)


def unescape(text: str) -> str:
    """Return what `escape` was given. A `${…}` that was written by hand stays as it is."""
    return re.sub(r"(\\*)\$\{", lambda found: "\\" * (max(len(found[1]) - 1, 0) // 2) + "${", text)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return nested plain values with `change` applied to every text."""
    if isinstance(value, Mapping):
        return {key: each_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [each_text(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def frozen(value: Any) -> Any:
    """Return a value that compares strictly: `1`, `1.0` and `True` differ, NaN equals NaN."""
    if isinstance(value, Mapping):
        return frozenset((frozen(key), frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return type(value).__name__, repr(value)


# Reading


def only(where: str, given: Mapping[Any, Any], known: list[str]) -> None:
    """Refuse keys that are not among the known ones."""
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            msg = f"{where} has no '{name}'{hint} (known: {', '.join(known)})"
            raise SpecError(msg)


def mapping(where: str, value: Any) -> Mapping[str, Any]:
    """Return `value` when it has keys and values."""
    if not isinstance(value, Mapping):
        msg = f"{where}: expected keys and values, got {value!r}"
        raise SpecError(msg)
    return value


def items(where: str, value: Any) -> list[Any]:
    """Return `value` when it is a list."""
    if not isinstance(value, list | tuple):
        msg = f"{where}: expected a list, got {value!r}"
        raise SpecError(msg)
    return list(value)


def text(where: str, value: Any) -> str:
    """Return `value` when it is a text that says something."""
    if not isinstance(value, str) or not value:
        msg = f"{where}: expected a name, got {value!r}"
        raise SpecError(msg)
    return value


def count(where: str, value: Any, *, least: int, optional: bool = True) -> None:
    """Refuse what is not a whole number of at least `least`; None means "not said"."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{where}: a whole number of at least {least}, not {value!r}"
        raise SpecError(msg)
