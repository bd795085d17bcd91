"""Values → the type that a key declares: pure, strict, and the same for code, forms and text."""

from __future__ import annotations

import enum
import json
import math
import os
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

import yaml

NONE_WORDS = frozenset({"null", "none", "~", ""})
TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})


class Unfit(ValueError):
    """The value does not fit the type; the caller adds the key and the owner."""


def coerce(hint: Any, value: Any) -> Any:
    """Return `value` as the type `hint`, or raise `Unfit`.

    Conversions that lose nothing are made (`"12"` or `12.0` for an int, `3` for a float, a list
    for a tuple, the name of an enum member); all others are refused (`2.5` for an int, `2` for a
    bool, a number for a str).
    """
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return _coerce_union(hint, value)
    if origin is Literal:
        return _coerce_choice(typing.get_args(hint), value)
    if hint is Any:
        return value
    if hint is type(None):
        if value is None or (isinstance(value, str) and value.strip().lower() in NONE_WORDS):
            return None
        raise Unfit
    if value is None:
        raise Unfit
    if origin in (list, Sequence) or hint is list:
        return _coerce_items(typing.get_args(hint)[:1] or (Any,), value)
    if origin is tuple or hint is tuple:
        return _coerce_tuple(typing.get_args(hint), value)
    if origin is dict or hint is dict:
        return _coerce_dict(typing.get_args(hint) or (Any, Any), value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _coerce_enum(hint, value)
    scalar = _SCALARS.get(hint)
    if scalar is None:
        msg = f"configuration keys cannot have the type {type_name(hint)}"
        raise TypeError(msg)
    return scalar(value)


def type_name(hint: Any) -> str:
    """Return how a person would write the type: `int`, `float | None`, `'adamw' | 'muon'`."""
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " | ".join(repr(choice) for choice in typing.get_args(hint))
    if origin is not None:
        arguments = ", ".join(
            "..." if part is Ellipsis else type_name(part) for part in typing.get_args(hint)
        )
        return f"{origin.__name__}[{arguments}]"
    if hint is type(None):
        return "None"
    return getattr(hint, "__name__", str(hint))


def is_optional(hint: Any) -> bool:
    """Tell whether None is a value of the type."""
    return hint is Any or type(None) in typing.get_args(hint) or hint is type(None)


def is_container(hint: Any) -> bool:
    """Tell whether a value of the type is a list, a tuple or a dict (or may be None besides)."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    if typing.get_origin(hint) in (Union, types.UnionType):
        return any(is_container(part) for part in parts)
    return (typing.get_origin(hint) or hint) in (list, tuple, dict, Sequence)


def choices_of(hint: Any) -> tuple[Any, ...] | None:
    """Return the values that a Literal or an Enum allows, or None for an open type."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return tuple(member.name for member in hint)
    if typing.get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        return choices_of(parts[0]) if len(parts) == 1 else None
    return None


def parse_text(hint: Any, text: str) -> Any:
    """Return the value that a command line or a form means by `text`, for the type `hint`.

    A str keeps its text as written; collections are read as YAML flow (`[1, 2]`, `{a: 1}`). Where
    a str may be None, `null` is None, and a text in double quotes is what JSON says it is, so that
    there is a way to write every text.
    """
    if _is_optional_text(hint):
        if text == "null":
            return None
        if text.startswith('"'):
            try:
                return coerce(hint, json.loads(text))
            except ValueError:
                return text
    if is_container(hint):
        try:
            return coerce(hint, yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise Unfit from error
    return coerce(hint, text)


def write_text(hint: Any, value: Any) -> str:
    """Return a text that `parse_text` reads as `value`, the shortest that a person would type."""
    if isinstance(value, str):
        quoted = _is_optional_text(hint) and (value == "null" or value.startswith('"'))
        return json.dumps(value) if quoted else value
    if isinstance(value, enum.Enum):
        return value.name
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | dict):
        flow = yaml.safe_dump(
            _names(value),
            default_flow_style=True,
            sort_keys=False,
            allow_unicode=True,
            width=math.inf,
        )
        return flow.strip()
    return repr(value)


def _names(value: Any) -> Any:
    """Return nested values with the members of an Enum by name."""
    if isinstance(value, list | tuple):
        return [_names(item) for item in value]
    if isinstance(value, dict):
        return {_names(key): _names(item) for key, item in value.items()}
    return value.name if isinstance(value, enum.Enum) else value


def _is_optional_text(hint: Any) -> bool:
    members = typing.get_args(hint)
    is_union = typing.get_origin(hint) in (Union, types.UnionType)
    return is_union and str in members and type(None) in members


def _coerce_union(hint: Any, value: Any) -> Any:
    members = typing.get_args(hint)
    # A member that takes the value unchanged comes first: `1` for `str | int` stays a number.
    for member in members:
        try:
            if type(fitted := coerce(member, value)) is type(value) and fitted == value:
                return fitted
        except Unfit:
            continue
    for member in members:
        try:
            return coerce(member, value)
        except Unfit:
            continue
    raise Unfit


def _coerce_choice(choices: tuple[Any, ...], value: Any) -> Any:
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    for choice in choices:
        try:
            if coerce(type(choice), value) == choice:
                return choice
        except Unfit:
            continue
    raise Unfit


def _coerce_enum(hint: type[enum.Enum], value: Any) -> enum.Enum:
    if isinstance(value, hint):
        return value
    if isinstance(value, str) and value.rpartition(".")[2] in hint.__members__:
        return hint[value.rpartition(".")[2]]
    for member in hint:
        if type(member.value) is type(value) and member.value == value:
            return member
    raise Unfit


def _coerce_items(member: tuple[Any, ...], value: Any) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise Unfit
    return [coerce(member[0], item) for item in value]


def _coerce_tuple(members: tuple[Any, ...], value: Any) -> list[Any]:
    items = _coerce_items((Any,), value)
    if not members:
        return items
    if len(members) == 2 and members[1] is Ellipsis:
        return [coerce(members[0], item) for item in items]
    if len(items) != len(members):
        raise Unfit
    return [coerce(member, item) for member, item in zip(members, items, strict=True)]


def _coerce_dict(members: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise Unfit
    return {coerce(members[0], k): coerce(members[1], v) for k, v in value.items()}


def _coerce_int(value: Any) -> int:
    if isinstance(value, bool):
        raise Unfit
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            return _coerce_int(_coerce_float(value))
    if hasattr(value, "__index__"):  # numpy integers
        return int(value)
    raise Unfit


def _coerce_float(value: Any) -> float:
    if isinstance(value, bool):
        raise Unfit
    if isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            raise Unfit from None
    if hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0:  # numpy scalars
        return float(value)
    raise Unfit


def _coerce_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    if type(value).__name__ in ("bool_", "bool"):  # numpy booleans
        return bool(value)
    raise Unfit


def _coerce_str(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise Unfit


_SCALARS = {int: _coerce_int, float: _coerce_float, bool: _coerce_bool, str: _coerce_str}
