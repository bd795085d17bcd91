"""The lines below `%%theseus`: YAML, set key by key, with every mistake at its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml
from omegaconf import DictConfig
from omegaconf.errors import GrammarParseError

from theseus.config import ConfigError, InvalidValueError, describe, load
from theseus.errors import UserError
from theseus.notebook.expand import OPEN, ExpandError, Expansion, Loader, Value

BODY = 2  # the line of the cell on which the YAML begins
_SHOWN = 8
_HINT = "`${{…}}` takes a value from Python when the first line has --expand"


@dataclass(frozen=True)
class Mistake:
    """Something wrong in the YAML; `line` is that of the cell, `column` counts from 0.

    Attributes
    ----------
    start, end
        Where it is in the text that was given, in characters.
    """

    line: int
    column: int
    message: str
    start: int = 0
    end: int = 0


class CellError(UserError):
    """The YAML of a cell has mistakes; `mistakes` has one record for each."""

    def __init__(self, mistakes: list[Mistake], text: str, hint: str = "") -> None:
        self.mistakes = mistakes
        lines = text.splitlines()
        parts = []
        for one in mistakes[:_SHOWN]:
            parts.append(f"line {one.line}: {one.message}")
            if 0 <= one.line - BODY < len(lines):
                shown = lines[one.line - BODY].replace("\t", " ")
                parts += [f"    {shown}", f"    {' ' * one.column}^"]
        if len(mistakes) > _SHOWN:
            parts.append(f"and {len(mistakes) - _SHOWN} more")
        if hint:
            parts.append(hint)
        super().__init__("\n".join(parts))


def apply(config: DictConfig, text: str, names: Mapping[str, Any] | None = None) -> None:
    """Set the values that the YAML gives, nested or with dotted keys.

    Parameters
    ----------
    names
        What `${{…}}` may speak of; None: it means nothing here.

    Raises
    ------
    CellError
        With every mistake at its line; the configuration is then half set, to be thrown away.
    """
    mistakes = list(_mistakes(config, text, names))
    if mistakes:
        raise CellError(mistakes, text, _HINT if names is None and OPEN in text else "")


def check(config: DictConfig, text: str, *, expand: bool = False) -> list[Mistake]:
    """Return what is wrong in a text; nothing of it is evaluated, and `config` is half set.

    Parameters
    ----------
    expand
        Whether `${{…}}` stands for a value of Python, of which nothing is known here.
    """
    if not expand:
        return list(_mistakes(config, text, None))
    try:
        expansion = Expansion(text, {})
        loader = Loader(expansion.text)
        tree = loader.get_single_node()
        if tree is None:
            return []
        marks = "".join(set(expansion.text) - set(text))
        return list(_set_all(config, loader, _unknown(tree, marks)))
    except ExpandError as error:
        return [_at_index(text, error.index, str(error))]
    except yaml.MarkedYAMLError as error:
        return [_not_yaml(error)]
    except yaml.reader.ReaderError as error:
        return [_at_index(text, error.position, f"not YAML: {error.reason}")]


class _Unknown:
    """A value that only the kernel knows."""


def _unknown(node: yaml.Node, marks: str) -> yaml.Node:
    """Return a node in which each value that has one of these marks is `_Unknown`."""
    if isinstance(node, yaml.MappingNode):
        node.value = [(key, _unknown(value, marks)) for key, value in node.value]
        return node
    if not marks or not _has(node, marks):
        return node
    scalar = yaml.ScalarNode("tag:yaml.org,2002:str", "", node.start_mark, node.end_mark)
    return Value(_Unknown, scalar)


def _has(node: yaml.Node, marks: str) -> bool:
    if isinstance(node, yaml.ScalarNode):
        return any(mark in node.value for mark in marks)
    if isinstance(node, yaml.SequenceNode):
        return any(_has(item, marks) for item in node.value)
    return any(_has(key, marks) or _has(value, marks) for key, value in node.value)


def _mistakes(config: DictConfig, text: str, names: Mapping[str, Any] | None) -> Iterator[Mistake]:
    try:
        expansion = None if names is None else Expansion(text, names)
        loader = Loader(text if expansion is None else expansion.text)
        tree = loader.get_single_node()
        if tree is None:
            return
        wrong = [] if expansion is None else list(expansion.fill(tree))
        if wrong:
            yield from (_at_index(text, one.index, str(one)) for one in wrong)
            return
        yield from _set_all(config, loader, tree)
    except ExpandError as error:
        yield _at_index(text, error.index, str(error))
    except yaml.MarkedYAMLError as error:
        yield _not_yaml(error)
    except yaml.reader.ReaderError as error:
        yield _at_index(text, error.position, f"not YAML: {error.reason}")


def _at_index(text: str, index: int, message: str) -> Mistake:
    before = text[:index]
    column = index - before.rfind("\n") - 1
    return Mistake(BODY + before.count("\n"), column, message, index, index)


def _set_all(config: DictConfig, loader: yaml.SafeLoader, tree: yaml.Node) -> Iterator[Mistake]:
    if not isinstance(tree, yaml.MappingNode):
        yield _at(tree, "expected keys and values, such as `training.tokens: 32_768`")
        return
    keys = {record.key for record in describe(config)}
    groups = {key[:i] for key in keys for i, letter in enumerate(key) if letter == "."}
    seen: dict[str, int] = {}
    yield from _set_below(config, loader, tree, "", groups, seen)


def _set_below(
    config: DictConfig,
    loader: yaml.SafeLoader,
    tree: yaml.MappingNode,
    prefix: str,
    groups: set[str],
    seen: dict[str, int],
) -> Iterator[Mistake]:
    loader.flatten_mapping(tree)  # `<<: *other`
    for key_node, value_node in tree.value:
        if not isinstance(key_node, yaml.ScalarNode):
            yield _at(key_node, "a key is a word")
            continue
        key = prefix + key_node.value.replace("/", ".")
        if key in groups and isinstance(value_node, yaml.MappingNode):
            yield from _set_below(config, loader, value_node, f"{key}.", groups, seen)
            continue
        line = key_node.start_mark.line + BODY
        if key in seen:
            yield _at(key_node, f"{key} is set already, on line {seen[key]}")
            continue
        seen[key] = line
        try:
            _set_one(config, loader, key, value_node)
        except InvalidValueError as error:
            yield _at(value_node, str(error))
        except ConfigError as error:
            yield _at(key_node, str(error))
        except GrammarParseError as error:
            told = str(error).split("\n", maxsplit=1)[0]
            yield _at(value_node, f"{key}: an interpolation is `${{key}}`: {told}")
        except yaml.MarkedYAMLError as error:
            yield _not_yaml(error)
        except (ValueError, OverflowError) as error:  # 2024-13-45, or a number of 5,000 digits
            yield _at(value_node, f"{key}: not a value of YAML: {error}")


def _set_one(config: DictConfig, loader: yaml.SafeLoader, key: str, node: yaml.Node) -> None:
    value = loader.construct_object(node, deep=True)
    if value is _Unknown:
        with suppress(InvalidValueError):  # whether there is such a key is all that can be told
            load(config, {key: None})
        return
    try:
        load(config, {key: value})
    except InvalidValueError as error:
        # YAML takes `on`, `123` and `2024-01-01` for other things than the text that a key wants.
        if isinstance(node, Value) or (written := _as_written(node)) == value:
            raise
        try:
            load(config, {key: written})
        except InvalidValueError:
            raise error from None


def _as_written(node: yaml.Node) -> Any:
    if isinstance(node, Value):
        return node.python
    if isinstance(node, yaml.SequenceNode):
        return [_as_written(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {_as_written(key): _as_written(item) for key, item in node.value}
    return node.value


def _at(node: yaml.Node, message: str) -> Mistake:
    start, end = node.start_mark, node.end_mark
    return Mistake(start.line + BODY, start.column, message, start.index, end.index)


def _not_yaml(error: yaml.MarkedYAMLError) -> Mistake:
    mark = error.problem_mark or error.context_mark
    told = f"not YAML: {error.problem or error.context}"
    if not mark:
        return Mistake(BODY, 0, told)
    return Mistake(mark.line + BODY, mark.column, told, mark.index, mark.index)
