"""Python values in the lines of a cell: `training.tokens: ${{n * 1024}}`, for `%%theseus --expand`.

`${{…}}` cannot be meant otherwise: OmegaConf has no interpolation that begins with two braces, and
YAML has no value that begins with `$`. Before YAML is read, each one is replaced by a mark of the
same length, so that every line and column stays. An expression is evaluated when its place in the
YAML is reached: not in a comment, and not when the YAML cannot be read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from theseus.errors import did_you_mean

_MARKS = range(0xE000, 0xF8FF)  # letters that mean nothing and that nobody types
OPEN, CLOSE = "${{", "}}"


class ExpandError(Exception):
    """An expression that cannot be read or evaluated; `index` is where it begins in the text."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class Value(yaml.ScalarNode):
    """A node of the YAML that stands for a Python value, whatever its type."""

    def __init__(self, python: Any, node: yaml.ScalarNode) -> None:
        super().__init__(node.tag, node.value, node.start_mark, node.end_mark)
        self.python = python


class Loader(yaml.SafeLoader):
    """Reads YAML; a `Value` is what it stands for."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return what a node stands for."""
        return node.python if isinstance(node, Value) else super().construct_object(node, deep)


@dataclass(frozen=True)
class _Expression:
    code: str
    index: int


class Expansion:
    """The text of a cell with its expressions marked.

    Attributes
    ----------
    text
        The text for the reader of YAML: as long as the given one, line by line.
    """

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        """Find the expressions.

        Raises
        ------
        ExpandError
            For one that has no end, or that is not Python.
        """
        self._names = dict(names)
        self._mark = next(letter for letter in map(chr, _MARKS) if letter not in text)
        self._pattern = re.compile(f"{self._mark}(\\d+){self._mark}")
        self._found: list[_Expression] = []
        self._values: dict[int, Any] = {}
        parts, position = [], 0
        while (begin := text.find(OPEN, position)) >= 0:
            end = _end(text, begin)
            parts += [text[position:begin], self._marked(end - begin)]
            self._found.append(_Expression(text[begin + len(OPEN) : end - len(CLOSE)], begin))
            position = end
        self.text = "".join([*parts, text[position:]])

    def _marked(self, length: int) -> str:
        return f"{self._mark}{len(self._found):0{length - 2}}{self._mark}"

    def fill(self, node: yaml.Node) -> Iterator[ExpandError]:
        """Put the values into a tree of nodes, and yield what is wrong with some."""
        if isinstance(node, yaml.MappingNode):
            for number, (key, value) in enumerate(node.value):
                yield from self._fill_text(key)
                node.value[number] = key, (yield from self._filled(value))
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                node.value[number] = yield from self._filled(item)

    def _filled(self, node: yaml.Node) -> Generator[ExpandError, None, yaml.Node]:
        """Return the node of a value: an expression alone, without quotes, is what Python has."""
        if not isinstance(node, yaml.ScalarNode):
            yield from self.fill(node)
            return node
        alone = None if node.style else self._pattern.fullmatch(node.value)
        if alone is None:
            yield from self._fill_text(node)
            return node
        try:
            return Value(self._value(int(alone[1])), node)
        except ExpandError as error:
            yield error
            return node

    def _fill_text(self, node: yaml.Node) -> Iterator[ExpandError]:
        """Put expressions among other text, in quotes or in a key in as text."""
        if isinstance(node, yaml.ScalarNode):
            try:
                node.value = self._pattern.sub(
                    lambda found: str(self._value(int(found[1]))), node.value
                )
            except ExpandError as error:
                yield error

    def _value(self, number: int) -> Any:
        if number not in self._values:
            one = self._found[number]
            try:
                # The user's own cell, which asked for it.
                self._values[number] = eval(one.code.strip(), self._names)  # noqa: S307
            except NameError as error:
                hint = did_you_mean(error.name or "", self._names)
                raise ExpandError(f"{error}{hint}", one.index) from error
            except Exception as error:
                msg = f"{one.code.strip()} raised {type(error).__name__}: {error}"
                raise ExpandError(msg, one.index) from error
        return self._values[number]


def _end(text: str, begin: int) -> int:
    """Return where an expression ends: at the first `}}` that leaves something that is Python."""
    line_end = text.find("\n", begin)
    line_end = len(text) if line_end < 0 else line_end
    start, problem = begin + len(OPEN), ""
    close = text.find(CLOSE, start, line_end)
    while close >= 0:
        try:
            ast.parse(text[start:close].strip(), mode="eval")
        except (SyntaxError, ValueError) as error:
            problem = problem or f"not an expression of Python: {getattr(error, 'msg', error)}"
            close = text.find(CLOSE, close + 1, line_end)
        else:
            return close + len(CLOSE)
    raise ExpandError(problem or f"'{OPEN}' without '{CLOSE}' on its line", begin)
