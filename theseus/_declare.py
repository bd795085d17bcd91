"""How keys are declared: `field`, and what the fields of a class say together."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from theseus._coerce import type_name
from theseus._nodes import (
    ConfigError,
    ConflictError,
    InvalidValueError,
    KeySpec,
    is_interpolation,
)

MISSING: Any = dataclasses.MISSING
_METADATA = "theseus"


@dataclass(frozen=True)
class Declaration:
    key: str
    help: str
    choices: tuple[Any, ...] | None
    ge: float | None
    le: float | None
    log: bool


def field(
    key: str,
    *,
    default: Any = MISSING,
    help: str = "",  # noqa: A002 - the field's standard word, as in argparse and traitlets
    choices: Iterable[Any] | None = None,
    ge: float | None = None,
    le: float | None = None,
    log: bool = False,
) -> Any:
    """Declare one key of the configuration as a field of a dataclass or a Flax module.

    Parameters
    ----------
    key
        Where the key stands, groups separated by slashes: `"architecture/n_embd"`.
    default
        The value until one is set. `0`, `False`, `""` and `None` are real defaults. Without a
        default the key is `???` and must be set before a job runs.
    help
        One line for people: shown in forms, completion and the reference.
    choices, ge, le
        The allowed values, and the least and the greatest number.
    log
        Whether a form should offer a logarithmic scale.
    """
    parts = key.replace(".", "/").split("/")
    if not all(part.isidentifier() for part in parts):
        msg = f"a key is words separated by slashes, such as 'training/tokens'; got {key!r}"
        raise ConfigError(msg)
    declared = Declaration(
        ".".join(parts), help, None if choices is None else tuple(choices), ge, le, log
    )
    how: dict[str, Any] = {"metadata": {_METADATA: declared}, "kw_only": True}
    if isinstance(default, list | dict | set):
        return dataclasses.field(default_factory=lambda: copy.deepcopy(default), **how)
    return dataclasses.field(default=default, **how)


def declaration_of(item: dataclasses.Field[Any]) -> Declaration | None:
    """Return what `field` declared for a dataclass field, or None for an ordinary one."""
    found: Declaration | None = item.metadata.get(_METADATA)
    return found


def declared_keys(cls: type, prefix: str = "", owner: str = "") -> Iterator[KeySpec]:
    if not dataclasses.is_dataclass(cls):
        msg = f"{cls.__qualname__} declares no keys: it is neither a dataclass nor a Flax module"
        raise ConfigError(msg)
    for item in dataclasses.fields(cls):
        declared = declaration_of(item)
        where = defining_class(cls, item.name)
        name = owner or where.__qualname__.rpartition(".<locals>.")[2]
        if declared is None and not prefix and not mentions_dataclass(item.type, where):
            continue  # an ordinary field, none of ours
        hint = resolve(item.type, where, item.name)
        nested = isinstance(hint, type) and dataclasses.is_dataclass(hint)
        if nested:
            inner = f"{declared.key}." if declared else (f"{prefix}{item.name}." if prefix else "")
            yield from declared_keys(typing.cast(type, hint), inner, "")
        elif declared is not None:
            yield _spec(declared, hint, name, _default(item))
        elif prefix:
            plain_key = Declaration(prefix + item.name, "", None, None, None, False)
            yield _spec(plain_key, hint, name, _default(item))


def _spec(declared: Declaration, hint: Any, owner: str, default: Any) -> KeySpec:
    spec = KeySpec(
        declared.key,
        hint,
        declared.help,
        declared.choices,
        declared.ge,
        declared.le,
        declared.log,
        (owner,),
        (),
    )
    if default is MISSING:
        return spec
    if not (isinstance(default, str) and is_interpolation(default)):
        try:
            default = spec.fit(default)
        except InvalidValueError as error:
            msg = f"the default in {owner} does not fit: {error}"
            raise InvalidValueError(msg, spec.key) from None
    return dataclasses.replace(spec, defaults=((owner, default),))


def join(first: KeySpec, second: KeySpec) -> KeySpec:
    if first.hint != second.hint:
        msg = (
            f"{first.key}: {first.owners[0]} says {type_name(first.hint)}, "
            f"{second.owners[0]} says {type_name(second.hint)}; one key has one type"
        )
        raise ConflictError(msg, first.key)
    new_owners = [owner for owner in second.owners if owner not in first.owners]
    choices = first.choices
    if second.choices is not None:
        choices = tuple(c for c in choices if c in second.choices) if choices else second.choices
    lows = [bound for bound in (first.ge, second.ge) if bound is not None]
    highs = [bound for bound in (first.le, second.le) if bound is not None]
    return dataclasses.replace(
        first,
        help=first.help or second.help,
        choices=choices,
        ge=max(lows, default=None),
        le=min(highs, default=None),
        log=first.log or second.log,
        owners=(*first.owners, *new_owners),
        defaults=tuple(dict(_hashable_pairs(first.defaults + second.defaults)).values()),
    )


def _hashable_pairs(
    defaults: tuple[tuple[str, Any], ...],
) -> Iterator[tuple[tuple[str, str], tuple[str, Any]]]:
    """Drop the repeats that arise when two classes inherit one field."""
    for owner, value in defaults:
        yield (owner, repr(value)), (owner, value)


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


def defining_class(cls: type, name: str) -> type:
    for base in cls.__mro__:
        if name in inspect.get_annotations(base):
            return base
    return cls


def mentions_dataclass(annotation: Any, where: type) -> bool:
    """Tell whether an undeclared field could hold nested keys, without needing its names."""
    if not isinstance(annotation, str):
        return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)
    try:
        hint = resolve(annotation, where, "")
    except ConfigError:
        return False  # not ours: a Flax module may use names that only a type checker sees
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def resolve(annotation: Any, where: type, name: str) -> Any:
    """Return the type of an annotation, which is text under `from __future__ import annotations`.

    The names are looked up where the class was written, as `typing.get_type_hints` does; that
    function would fail on a class one of whose other annotations cannot be resolved.
    """
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(where.__module__)
    try:
        return eval(annotation, dict(vars(module)) if module else {}, dict(vars(where)))  # noqa: S307
    except Exception as error:
        msg = f"{where.__qualname__}.{name}: cannot resolve the type {annotation!r}: {error}"
        raise ConfigError(msg) from error
