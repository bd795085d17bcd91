"""How a configuration is read: `configuration`, `configure`, and open sessions."""

from __future__ import annotations

import dataclasses
import typing
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from omegaconf import DictConfig, ListConfig, OmegaConf

from theseus._coerce import type_name
from theseus._declare import declaration_of, defining_class, mentions_dataclass, resolve
from theseus._nodes import ConfigError, UnknownKeyError, schema_of
from theseus.errors import did_you_mean

T = TypeVar("T")

_active: ContextVar[DictConfig | None] = ContextVar("theseus_configuration", default=None)
_sessions: weakref.WeakSet[Any] = weakref.WeakSet()


@contextmanager
def configuration(config: DictConfig) -> Iterator[DictConfig]:
    """Make `config` the one that `configure` reads inside this block."""
    token = _active.set(config)
    try:
        yield config
    finally:
        _active.reset(token)


def register_session(session: Any) -> None:
    """Let `configure` find `session.config` when no `configuration(…)` block is open.

    Context variables set in one notebook cell are gone in the next after a top-level `await`, and
    threads do not see them; an open session is found from everywhere.
    """
    _sessions.add(session)


def unregister_session(session: Any) -> None:
    """Forget a session: its block has ended."""
    _sessions.discard(session)


def configure(cls: type[T], **overrides: Any) -> T:
    """Return an instance of `cls` filled from the active configuration.

    Parameters
    ----------
    cls
        A dataclass or a Flax module with fields made by `field`.
    overrides
        Values for this instance alone, by field name; checked like any other.

    Raises
    ------
    ConfigError
        When no configuration is active, or a key has no value.
    """
    config = _current(cls)
    known = [item.name for item in dataclasses.fields(typing.cast(Any, cls)) if item.init]
    for name in overrides:
        if name not in known:
            msg = f"{cls.__qualname__} has no field '{name}'{did_you_mean(name, known)}"
            raise UnknownKeyError(msg, name)
    return _fill(cls, config, overrides, "")


def _fill(cls: type[T], config: DictConfig, overrides: Mapping[str, Any], prefix: str) -> T:
    schema = schema_of(config)
    values: dict[str, Any] = {}
    for item in dataclasses.fields(typing.cast(Any, cls)):
        declared = declaration_of(item)
        where = defining_class(cls, item.name)
        if declared is None and not prefix and not mentions_dataclass(item.type, where):
            continue
        hint = resolve(item.type, where, item.name)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            inner = f"{declared.key}." if declared else (f"{prefix}{item.name}." if prefix else "")
            if item.name not in overrides:
                values[item.name] = _fill(typing.cast(type, hint), config, {}, inner)
            continue
        key = declared.key if declared else prefix + item.name
        if item.name in overrides:
            if key in schema and overrides[item.name] is not None:
                values[item.name] = _native(schema[key].fit(overrides[item.name]), hint)
            continue
        if key not in schema:
            msg = (
                f"{key}: {cls.__qualname__} wants this key, but the active configuration was "
                f"built without it; add {cls.__qualname__} to what the job declares"
            )
            raise UnknownKeyError(msg, key)
        values[item.name] = _native(select(config, key), hint)
    return cls(**{**overrides, **values})


def _current(cls: type) -> DictConfig:
    config = _active.get()
    if config is not None:
        return config
    built = [session for session in _sessions if getattr(session, "has_config", True)]
    if len(built) == 1:
        found: DictConfig = built[0].config
        return found
    if built:
        names = " and ".join(sorted(str(session) for session in built))
        msg = (
            f"{cls.__qualname__} cannot be configured: more than one session is open ({names}); "
            "say which: `with configuration(q.config): …`"
        )
    else:
        msg = (
            f"{cls.__qualname__} cannot be configured: no configuration is active; "
            "use `with configuration(q.config): …`"
        )
    raise ConfigError(msg)


def select(config: DictConfig, key: str) -> Any:
    """Return the value of a dotted key, interpolations resolved, lists and dicts plain."""
    node: Any = config
    for part in key.split("."):
        node = node[part]
    if isinstance(node, DictConfig | ListConfig):
        return OmegaConf.to_container(node, resolve=True)
    return node


def _native(value: Any, hint: Any) -> Any:
    """Return lists as the tuple that the field asks for; Flax modules need hashable values."""
    if isinstance(value, list) and "tuple" in type_name(hint):
        return tuple(value)
    return value
