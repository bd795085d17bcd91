"""Configuration: declare keys with `field`, gather them with `build`, read them with `configure`.

    @dataclass
    class ModelConfig:
        n_embd: int = field("architecture/n_embd", default=128, help="embedding width", ge=1)

    cfg = build(ModelConfig)
    cfg.architecture.n_embd = 64
    with configuration(cfg):
        configure(ModelConfig).n_embd   # 64

A key is declared once, beside the code that reads it; `describe` is the one source for forms,
completion, error texts and the reference pages.
"""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from theseus._coerce import Unfit, choices_of, parse_text, type_name, write_text
from theseus._configure import (
    configuration,
    configure,
    register_session,
    select,
    unregister_session,
)
from theseus._declare import (
    MISSING,
    declaration_of,
    declared_keys,
    field,
    join,
)
from theseus._nodes import (
    UNSET,
    ConfigError,
    ConflictError,
    InvalidValueError,
    KeySpec,
    MissingValueError,
    UnknownKeyError,
    is_interpolation,
    plain,
    schema_of,
    section,
    unknown_key,
)

__all__ = [
    "MISSING",
    "ConfigError",
    "ConflictError",
    "InvalidValueError",
    "KeyRecord",
    "MissingValueError",
    "UnknownKeyError",
    "assign",
    "build",
    "changed",
    "check_complete",
    "configuration",
    "configure",
    "describe",
    "field",
    "keys_of",
    "load",
    "override",
    "raw_value",
    "register_session",
    "text_of",
    "to_plain",
    "unregister_session",
]


# Building


def build(*classes: type, values: Mapping[str, Any] | None = None) -> DictConfig:
    """Return the configuration of these classes: typed leaf by leaf, with unknown keys refused.

    Parameters
    ----------
    classes
        Dataclasses or Flax modules whose fields were made by `field`. Nested dataclasses count.
    values
        Values to set at once, nested or with dotted keys.

    Raises
    ------
    ConflictError
        Two classes declare one key with different types, or one as a group and one as a value.
    """
    schema: dict[str, KeySpec] = {}
    for cls in dict.fromkeys(classes):
        for spec in declared_keys(cls):
            known = schema.get(spec.key)
            schema[spec.key] = spec if known is None else join(known, spec)
    for key, spec in schema.items():
        group = key.rpartition(".")[0]
        while group:
            if group in schema:
                msg = (
                    f"{group}: a value in {', '.join(schema[group].owners)}, "
                    f"but a group of keys in {', '.join(spec.owners)} ({key})"
                )
                raise ConflictError(msg, group)
            group = group.rpartition(".")[0]
    config = section(schema)
    if values:
        load(config, values)
    return config


# Setting


def load(config: DictConfig, values: Mapping[str, Any] | DictConfig) -> None:
    """Set many values with the checks of an assignment: all of them, or none when one is wrong.

    Parameters
    ----------
    values
        Nested (`{"training": {"tokens": 1}}`) or with dotted keys (`{"training.tokens": 1}`), for
        example the content of a YAML file.

    Raises
    ------
    UnknownKeyError, InvalidValueError
        With the attribute `key`, so that a caller can find the line.
    """
    flat = list(_flatten(config, plain(values), ""))
    trial = copy.deepcopy(config)
    for target in (trial, config):
        for key, value in flat:
            _assign(target, key, value)


def override(config: DictConfig, assignments: Iterable[str]) -> None:
    """Apply `key=value` texts from a command line; the text means what the key's type says.

    Raises
    ------
    ConfigError
        For a text without `=`, an unknown key, or a value that does not fit.
    """
    schema = schema_of(config)
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        key = key.strip().replace("/", ".")
        if not separator:
            msg = f"expected key=value, got {assignment!r}"
            raise ConfigError(msg)
        if key not in schema:
            raise unknown_key(config, key)
        values[key] = meant(schema[key], text)
    load(config, values)


def meant(spec: KeySpec, text: str) -> Any:
    """Return the value that a text means for a key; one that does not fit stays text.

    Assigning that text then words the error.
    """
    if is_interpolation(text) and not text.startswith(("[", "{")):
        return text
    try:
        return parse_text(spec.hint, text)
    except Unfit:
        return text


def text_of(config: DictConfig, key: str, value: Any) -> str:
    """Return the text that means this value: what a form shows, and a command line takes."""
    return write_text(schema_of(config)[key].hint, value)


def assign(config: DictConfig, key: str, value: Any) -> None:
    """Set one value by its dotted key, with the checks of an assignment.

    Raises
    ------
    UnknownKeyError, InvalidValueError
        The value is then as it was.
    """
    if key not in schema_of(config):
        raise unknown_key(config, key)
    _assign(config, key, value)


def raw_value(config: DictConfig, key: str) -> Any:
    """Return the value of a key as it was set: plain, interpolations as text, `???` if unset."""
    return plain(_raw(config, key))


def _flatten(config: DictConfig, values: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    schema = schema_of(config)
    if not isinstance(values, Mapping):
        msg = f"expected keys and values{f' under {prefix[:-1]}' if prefix else ''}, got {values!r}"
        raise InvalidValueError(msg, prefix[:-1] or None)
    for name, value in values.items():
        key = prefix + str(name).replace("/", ".")
        if key in schema:
            yield key, value
        elif any(known.startswith(key + ".") for known in schema):
            if value is not None:  # an empty group of a YAML file sets nothing
                yield from _flatten(config, value, key + ".")
        else:
            raise unknown_key(config, key)


def _assign(config: DictConfig, key: str, value: Any) -> None:
    *groups, name = key.split(".")
    parent: Any = config
    for group in groups:
        parent = parent[group]
    parent[name] = value


# Telling


@dataclass(frozen=True)
class KeyRecord:
    """All that is known about one key; `default` and `value` are `MISSING` where there is none."""

    key: str
    type: str
    default: Any
    value: Any
    help: str
    choices: tuple[Any, ...] | None
    ge: float | None
    le: float | None
    log: bool
    owners: tuple[str, ...]
    hint: Any = dataclasses.field(repr=False, compare=False, default=None)


def describe(what: Any) -> list[KeyRecord]:
    """Return one record per key of a configuration, or of a job (its class or an instance)."""
    if isinstance(what, DictConfig):
        config = what
    elif isinstance(what, type):
        configs = getattr(what, "configs", None)
        config = build(*configs()) if callable(configs) else build(what)
    else:
        config = what.config
    return [_record(config, spec) for _, spec in sorted(schema_of(config).items())]


def _record(config: DictConfig, spec: KeySpec) -> KeyRecord:
    default = spec.default
    try:
        value = select(config, spec.key)
    except (MissingValueError, OmegaConfBaseException):
        value = MISSING
    return KeyRecord(
        spec.key,
        type_name(spec.hint),
        MISSING if isinstance(default, str) and default == UNSET else default,
        value,
        spec.help,
        spec.choices if spec.choices is not None else choices_of(spec.hint),
        spec.ge,
        spec.le,
        spec.log,
        spec.owners,
        spec.hint,
    )


def keys_of(cls: type) -> dict[str, str]:
    """Return field name → dotted key of the fields that `field` made."""
    declared = {item.name: declaration_of(item) for item in dataclasses.fields(cls)}
    return {name: found.key for name, found in declared.items() if found is not None}


def changed(config: DictConfig) -> dict[str, Any]:
    """Return dotted key → value for the keys that differ from their default."""
    found = {}
    for key, spec in sorted(schema_of(config).items()):
        value = raw_value(config, key)
        if value not in (spec.default, UNSET):
            found[key] = value
    return found


def check_complete(config: DictConfig) -> None:
    """Refuse a configuration with keys that have no value, or a value that does not fit.

    Raises
    ------
    MissingValueError
        Naming every such key with the class that wants it.
    """
    unset = []
    for key, spec in sorted(schema_of(config).items()):
        try:
            spec.fit(select(config, key))
        except MissingValueError:
            unset.append(spec)
        except ConfigError:
            raise
        except OmegaConfBaseException as error:
            msg = f"{key}: {error.msg or error}"
            raise InvalidValueError(msg.split("\n", maxsplit=1)[0], key) from None
    if unset:
        told = "".join(f"\n  {spec.why_unset()}" for spec in unset)
        first = unset[0].key
        msg = f"these keys have no value yet:{told}\nset them, for example `q.config.{first} = …`"
        raise MissingValueError(msg, first)


def to_plain(config: DictConfig, *, resolve: bool = False) -> dict[str, Any]:
    """Return the configuration as plain nested dicts; `???` marks a key without a value."""
    container = OmegaConf.to_container(config, resolve=resolve, enum_to_str=True)
    return typing.cast(dict[str, Any], container)


def _raw(config: DictConfig, key: str) -> Any:
    node: Any = config
    for part in key.split("."):
        node = node.__dict__["_content"][part]
    return node
