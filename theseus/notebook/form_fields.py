"""What a form shows of a configuration, as plain values: one field and one cell for each key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from theseus import config as configuration
from theseus._coerce import is_container, is_optional
from theseus._configure import select
from theseus._nodes import UNSET, KeySpec, is_interpolation, schema_of, unknown_key
from theseus._summary import value_text
from theseus.config import KeyRecord, MissingValueError
from theseus.errors import UserError

Control = Literal["switch", "choice", "int", "float", "text", "items"]


class Field(TypedDict, total=False):
    """What is declared about a key; what is empty is left out."""

    key: str
    control: Control
    type: str
    help: str
    owners: str
    optional: bool
    choices: list[str]
    ge: float
    le: float
    log: bool
    default: str | None


class Cell(TypedDict, total=False):
    """What a key holds now; false flags are left out.

    Attributes
    ----------
    text
        The value as it would be typed; None where it is None, empty where it is missing.
    value
        What an interpolation comes to.
    problem
        Why there is no value that fits.
    """

    text: str | None
    value: str
    changed: bool
    missing: bool
    problem: str


def fields(config: DictConfig) -> list[Field]:
    """Return what is declared about every key, in their order."""
    schema = schema_of(config)
    return [_field(config, record, schema[record.key]) for record in configuration.describe(config)]


def cells(config: DictConfig) -> dict[str, Cell]:
    """Return what every key holds."""
    return {key: _cell(config, spec) for key, spec in sorted(schema_of(config).items())}


def typed(config: DictConfig, key: str, text: str | None) -> Any:
    """Return the value that was meant by what was typed; None is None.

    Raises
    ------
    UnknownKeyError
    """
    schema = schema_of(config)
    if key not in schema:
        raise unknown_key(config, key)
    return None if text is None else configuration.meant(schema[key], text)


def _field(config: DictConfig, record: KeyRecord, spec: KeySpec) -> Field:
    found = Field(
        key=record.key,
        control=_control(record),
        type=record.type,
        owners=", ".join(record.owners),
    )
    if record.help:
        found["help"] = record.help
    if is_optional(spec.hint):
        found["optional"] = True
    if record.choices is not None:
        found["choices"] = [
            configuration.text_of(config, record.key, choice)
            for choice in record.choices
            if choice is not None
        ]
    if record.ge is not None and math.isfinite(record.ge):
        found["ge"] = record.ge
    if record.le is not None and math.isfinite(record.le):
        found["le"] = record.le
    if record.log:
        found["log"] = True
    if spec.default != UNSET:
        found["default"] = _text(config, spec, spec.default)
    return found


def _control(record: KeyRecord) -> Control:
    if is_container(record.hint):
        return "items"
    if record.choices is not None:
        return "choice"
    kinds = {"bool": "switch", "int": "int", "float": "float"}
    kind: Any = kinds.get(record.type.removesuffix(" | None").removeprefix("None | "), "text")
    return kind  # type: ignore[no-any-return]


def _cell(config: DictConfig, spec: KeySpec) -> Cell:
    raw = configuration.raw_value(config, spec.key)
    if isinstance(raw, str) and raw == UNSET:
        return Cell(text="", missing=True, problem=spec.why_unset())
    cell = Cell(text=_text(config, spec, raw))
    if raw != spec.default:
        cell["changed"] = True
    try:
        value = select(config, spec.key)
        if isinstance(raw, str) and is_interpolation(raw):
            cell["value"] = value_text(value)
            spec.fit(value)
    except MissingValueError as error:
        cell["problem"] = str(error)
    except UserError as error:
        cell["problem"] = str(error)
    except OmegaConfBaseException as error:
        cell["problem"] = f"{spec.key}: {str(error).splitlines()[0]}"
    return cell


def _text(config: DictConfig, spec: KeySpec, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value_text(value)  # 32_768 is read more easily, and read back
    return configuration.text_of(config, spec.key, value)


def difference(before: Mapping[str, Cell], after: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the cells that are new or other than before."""
    return {key: cell for key, cell in after.items() if before.get(key) != cell}
