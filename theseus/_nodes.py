"""The OmegaConf nodes of a typed configuration: checked leaves in struct-locked sections.

OmegaConf's own typed nodes take `2` for a bool, know no bounds or choices, and name neither the
owner of a key nor the nearest valid one; these add that and stay ordinary OmegaConf nodes, so
that `OmegaConf.merge`, `update`, `save`, interpolation and copies work as documented there.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from omegaconf import DictConfig, ListConfig, OmegaConf, ValueNode
from omegaconf.base import Metadata, Node
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    ValidationError,
)

from theseus._coerce import Unfit, choices_of, coerce, is_container, is_optional, type_name
from theseus.errors import UserError, did_you_mean, nearest

UNSET = "???"


class ConfigError(UserError):
    """Something is wrong with a configuration; `key` is the dotted key, where one is known."""

    key: str | None = None

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownKeyError(ConfigError, ConfigAttributeError, ConfigKeyError):
    """No such key; the message names the nearest one."""

    _initialized = True


class InvalidValueError(ConfigError, ValidationError):
    """The value does not fit the key's type, bounds or choices."""

    _initialized = True


class MissingValueError(ConfigError, MissingMandatoryValue):
    """A key without a value was read, or a job with such keys was to be run."""

    _initialized = True


class ConflictError(ConfigError):
    """Two classes declare the same key in ways that cannot both hold."""


@dataclass(frozen=True)
class KeySpec:
    """What is declared about one key, by all the classes that share it.

    `defaults` holds `(owner, value)` for each owner that gave a default; the key starts as `???`
    when they differ.
    """

    key: str
    hint: Any
    help: str
    choices: tuple[Any, ...] | None
    ge: float | None
    le: float | None
    log: bool
    owners: tuple[str, ...]
    defaults: tuple[tuple[str, Any], ...]

    @property
    def default(self) -> Any:
        """The default, or `???` where there is none or the owners disagree."""
        values = [value for _, value in self.defaults]
        if not values or any(value != values[0] for value in values[1:]):
            return UNSET
        return values[0]

    @property
    def expected(self) -> str:
        """The type with its bounds and choices, as an error message says it."""
        text = type_name(self.hint)
        if self.ge is not None and self.le is not None:
            text += f" from {self.ge:g} to {self.le:g}"
        elif self.ge is not None:
            text += f" ≥ {self.ge:g}"
        elif self.le is not None:
            text += f" ≤ {self.le:g}"
        if self.choices is not None:
            text += ", one of " + ", ".join(map(repr, self.choices))
        return text

    def fit(self, value: Any) -> Any:
        """Return `value` in the key's type, or raise `InvalidValueError`."""
        try:
            fitted = coerce(self.hint, value)
        except Unfit:
            hint = did_you_mean(value, self._words()) if isinstance(value, str) else ""
            raise self._invalid(value, hint) from None
        if fitted is not None:
            for item in fitted if isinstance(fitted, list) else [fitted]:
                self._check_range(item, value)
        return fitted

    def why_unset(self) -> str:
        """Say which class wants the key, or which defaults contradict each other."""
        if len(self.defaults) > 1:
            told = " and ".join(f"{value!r} in {owner}" for owner, value in self.defaults)
            return f"{self.key} ({type_name(self.hint)}): the defaults differ, {told}"
        return f"{self.key} ({type_name(self.hint)}): wanted by {', '.join(self.owners)}"

    def node(self, value: Any, parent: DictConfig, name: str) -> Node:
        """Return a node that holds `value`, or raise `InvalidValueError`."""
        special = isinstance(value, str) and (value == UNSET or is_interpolation(value))
        if not is_container(self.hint):
            return Leaf(self, value if special else self.fit(value), parent, name)
        content = value if special else self.fit(value)
        if isinstance(content, dict):
            node: Node = Entries(content, flags={"struct": False})
        else:
            node = Items(content)
        node._set_key(name)
        node._set_parent(parent)
        return node

    def _check_range(self, item: Any, value: Any) -> None:
        if self.choices is not None and item not in self.choices:
            hint = did_you_mean(item, self._words()) if isinstance(item, str) else ""
            raise self._invalid(value, hint)
        if isinstance(item, int | float) and not isinstance(item, bool):
            low = self.ge is not None and not item >= self.ge
            high = self.le is not None and not item <= self.le
            if low or high or (isinstance(item, float) and math.isnan(item)):
                raise self._invalid(value, "")

    def _words(self) -> list[str]:
        known = self.choices if self.choices is not None else choices_of(self.hint) or ()
        return [word for word in known if isinstance(word, str)]

    def _invalid(self, value: Any, hint: str) -> InvalidValueError:
        msg = f"{self.key}: expected {self.expected}, got {value!r} ({type(value).__name__}){hint}"
        return InvalidValueError(msg, self.key)


def is_interpolation(text: str) -> bool:
    """Tell whether the text refers to another key or a resolver (`${a.b}`)."""
    return "${" in text


class Leaf(ValueNode):
    """A scalar whose every assignment is checked against its `KeySpec`."""

    def __init__(self, spec: KeySpec, value: Any, parent: Any = None, key: Any = None) -> None:
        self.__dict__["_spec"] = spec
        metadata = Metadata(
            ref_type=Any, object_type=None, optional=is_optional(spec.hint), key=key
        )
        super().__init__(parent=parent, value=value, metadata=metadata)

    def validate_and_convert(self, value: Any) -> Any:
        return self.__dict__["_spec"].fit(value)

    def _validate_and_convert_impl(self, value: Any) -> Any:
        return self.validate_and_convert(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Leaf:
        twin = Leaf.__new__(Leaf)
        twin.__dict__["_spec"] = self.__dict__["_spec"]
        twin.__dict__["_flags_cache"] = None
        self._deepcopy_impl(twin, memo)
        return twin


class Items(ListConfig):
    """A list whose items are checked when it is edited in place, too."""

    def append(self, item: Any) -> None:
        self.insert(len(self), item)

    def insert(self, index: int, item: Any) -> None:
        self._check([*self[:index], item, *self[index:]])
        super().insert(index, item)

    def __setitem__(self, index: int | slice, value: Any) -> None:
        items = list(self)
        items[index] = value
        self._check(items)
        super().__setitem__(index, value)

    def _check(self, items: list[Any]) -> None:
        spec = spec_of(self._get_parent(), self._key())
        if spec is not None:
            spec.fit([plain(item) for item in items])


class Explained(DictConfig):
    """A mapping whose errors say what is wrong in our words, where OmegaConf would add its own."""

    def _format_and_raise(
        self,
        key: Any,
        value: Any,
        cause: Exception,
        msg: str | None = None,
        type_override: Any = None,
    ) -> NoReturn:
        if isinstance(cause, ConfigError):
            raise cause.with_traceback(None) from None
        full = str(self._get_full_key(key)) if key is not None else None
        if full is not None and isinstance(cause, MissingMandatoryValue):
            spec = spec_of(self, key)
            told = spec.why_unset() if spec else full
            raise MissingValueError(f"no value yet for {told}", full) from None
        if full is not None and isinstance(cause, ConfigAttributeError | ConfigKeyError):
            raise unknown_key(self, full) from None
        super()._format_and_raise(key, value, cause, msg, type_override)


class Entries(Explained):
    """A mapping with free names whose values are checked when it is edited in place, too."""

    def _set_item_impl(self, key: Any, value: Any) -> None:
        spec = spec_of(self._get_parent(), self._key())
        if spec is not None:
            spec.fit({**plain(self), key: plain(value)})
        super()._set_item_impl(key, value)


class Section(Explained):
    """A part of a typed configuration: its keys are fixed, its values are checked."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Section:
        plain = super().__deepcopy__(memo)
        twin = Section.__new__(Section)
        twin.__dict__.update(plain.__dict__)
        if "_schema" in self.__dict__:
            twin.__dict__["_schema"] = self.__dict__["_schema"]
        for child in twin.__dict__["_content"].values():
            child.__dict__["_parent"] = twin
        return twin

    def __delattr__(self, key: str) -> None:
        del self[key]

    def _set_item_impl(self, key: Any, value: Any) -> None:
        content = self.__dict__["_content"]
        spec = spec_of(self, key)
        if self._get_flag("readonly") or (spec is None and key not in content):
            super()._set_item_impl(key, value)
        elif spec is None:
            if not isinstance(value, Mapping | DictConfig):
                full = self._get_full_key(key)
                msg = f"{full} is a group of keys, not a value; set one of its keys"
                raise InvalidValueError(msg, full)
            for name, item in plain(value).items():
                content[key][name] = item
        else:
            content[key] = spec.node(plain(value), self, key)


def plain(value: Any) -> Any:
    """Return a node's content without the node; interpolations are kept as text."""
    if isinstance(value, Node) and not isinstance(value, DictConfig | ListConfig):
        return value._value()
    if isinstance(value, DictConfig | ListConfig):
        if value._is_none() or value._is_missing() or value._is_interpolation():
            return value._value()
        return OmegaConf.to_container(value, resolve=False)
    return value


def schema_of(config: Any) -> dict[str, KeySpec]:
    """Return dotted key → `KeySpec` for the configuration that this node belongs to."""
    if not isinstance(config, Node):
        return {}
    schema: dict[str, KeySpec] = config._get_root().__dict__.get("_schema", {})
    return schema


def spec_of(parent: Any, name: Any) -> KeySpec | None:
    """Return what is declared about the key `name` of this section, or None."""
    if not isinstance(parent, Section):
        return None
    return schema_of(parent).get(str(parent._get_full_key(name)))


def unknown_key(config: Any, full: str) -> UnknownKeyError:
    """Return the error for a key that nobody declares, with the nearest one that exists."""
    known = list(schema_of(config))
    groups = sorted({key.rpartition(".")[0] for key in known} - {""})
    group, _, name = full.rpartition(".")
    siblings = [key for key in [*known, *groups] if key.rpartition(".")[0] == group]
    by_name = nearest(name, [key.rpartition(".")[2] for key in siblings])
    if by_name is not None:
        found: str | None = f"{group}.{by_name}" if group else by_name
    else:
        elsewhere = [key for key in known if key.rpartition(".")[2] == name]
        found = elsewhere[0] if len(elsewhere) == 1 else nearest(full, [*known, *groups])
    hint = f", did you mean '{found}'?" if found else ""
    return UnknownKeyError(f"{full}: no such key{hint}", full)


def section(schema: dict[str, KeySpec]) -> Section:
    """Return the typed, struct-locked configuration of a schema, with its defaults."""
    root = Section({})
    root.__dict__["_schema"] = schema
    for key, spec in schema.items():
        *groups, name = key.split(".")
        parent = root
        for group in groups:
            content = parent.__dict__["_content"]
            if group not in content:
                child = Section({})
                child._set_key(group)
                child._set_parent(parent)
                content[group] = child
            parent = content[group]
        default = copy.deepcopy(spec.default)
        parent.__dict__["_content"][name] = spec.node(default, parent, name)
    OmegaConf.set_struct(root, True)
    return root
