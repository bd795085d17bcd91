"""YAML as nodes with line numbers: what a strict reader of a file that people write needs.

Values are taken as they are written: YAML 1.1 would make 7200 of a time limit `2:00:00`, False of
a partition `no`, and 1e3 of a commit `1e3`. Nothing is constructed, so a file cannot run code.
All mistakes of a file are collected and told at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from theseus.dispatch._interpolation import VARIABLE, interpolated, unset
from theseus.dispatch.inventory import InventoryError
from theseus.dispatch.secrets import Secret, looks_secret
from theseus.errors import did_you_mean

Value = TypeVar("Value")

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)
_MOST = 12  # mistakes that are told at once


@dataclass
class Mistakes:
    """What is wrong in one file, collected."""

    path: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def at(self, node: Node, message: str) -> None:
        """Note what is wrong at a node."""
        self.found.append((node.start_mark.line + 1, message))

    def tell(self) -> None:
        """Raise InventoryError with all mistakes, if there are any."""
        lines = [
            f"{self.path}, line {line}: {message}"
            for line, message in sorted(dict.fromkeys(self.found))
        ]
        if not lines:
            return
        more = len(lines) - _MOST
        if more > 0:
            lines[_MOST:] = [f"… and {more} more"]
        raise InventoryError("\n".join(lines))


def compose(text: str, path: Path) -> Node | None:
    """Return the root node of the only document, or None when the file says nothing.

    Raises
    ------
    InventoryError
        When it is not YAML.
    """
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        problem = error.problem or error.context or "it cannot be read"
        hint = ": YAML is indented with spaces" if "'\\t'" in problem else ""
        msg = f"{path}{line}: not YAML: {problem}{hint}"
    except yaml.YAMLError as error:
        msg = f"{path}: not YAML: {str(error).splitlines()[0]}"
    raise InventoryError(msg)


@dataclass(frozen=True)
class Item:
    """One value of the file, and how messages call it (`hosts.box.chips`)."""

    node: Node
    name: str
    mistakes: Mistakes

    def wrong(self, message: str) -> None:
        """Note a mistake here."""
        self.mistakes.at(self.node, f"{self.name}: {message}")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written: `key:` or `key: null`."""
        return isinstance(self.node, ScalarNode) and self.node.tag == _NULL

    @property
    def is_mapping(self) -> bool:
        """Whether there are keys and values."""
        return isinstance(self.node, MappingNode)

    @property
    def is_scalar(self) -> bool:
        """Whether there is one text or number."""
        return isinstance(self.node, ScalarNode)

    def text(self, what: str = "a text") -> str | None:
        """Return a scalar as it is written; `${oc.env:NAME}` is replaced."""
        written = self.written(what)
        return None if written is None else self._resolved(written)

    def written(self, what: str = "a text") -> str | None:
        """Return a scalar as it is written, or note that it is none."""
        if not isinstance(self.node, ScalarNode) or self.node.tag not in _PLAIN_TAGS:
            self.wrong(f"expected {what}, not {_kind(self.node)}")
            return None
        if self.is_empty:
            self.wrong(f"expected {what}; nothing is written")
            return None
        value: str = self.node.value
        if not value.strip():
            self.wrong(f"expected {what}, not an empty one")
            return None
        return value

    def parsed(self, parse: Callable[[str], Value | None], what: str) -> Value | None:
        """Return what `parse` makes of the text; its None is a mistake."""
        text = self.text(what)
        if text is None:
            return None
        value = parse(text)
        if value is None:
            self.wrong(f"expected {what}, not '{text}'")
        return value

    def count(self, *, least: int = 1) -> int | None:
        """Return a whole number."""

        def parse(text: str) -> int | None:
            plain = text.replace("_", "")
            return (
                int(plain) if re.fullmatch(r"[0-9]{1,9}", plain) and int(plain) >= least else None
            )

        return self.parsed(parse, f"a whole number of at least {least}")

    def switch(self) -> bool | None:
        """Return true or false."""
        words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        return self.parsed(lambda text: words.get(text.lower()), "true or false")

    def choice(self, choices: Iterable[str]) -> str | None:
        """Return one of the words that are possible here."""
        text = self.text("a word")
        choices = list(choices)
        if text is None or text in choices:
            return text
        self.wrong(f"no '{text}'{did_you_mean(text, choices)} (possible: {', '.join(choices)})")
        return None

    def items(self, example: str) -> list[Item]:
        """Return the items of a list."""
        if self.is_empty:
            return []
        if not isinstance(self.node, SequenceNode):
            self.wrong(f"expected a list such as {example}, not {_kind(self.node)}")
            return []
        return [
            Item(node, f"{self.name}[{number}]", self.mistakes)
            for number, node in enumerate(self.node.value)
        ]

    def texts(self, example: str) -> tuple[str, ...]:
        """Return the texts of a list."""
        found = (item.text() for item in self.items(example))
        return tuple(text for text in found if text is not None)

    def fields(self, known: Iterable[str] | None, example: str = "") -> dict[str, Item]:
        """Return the entries of a mapping by their keys.

        Parameters
        ----------
        known
            The keys that there may be; None for any.
        """
        if self.is_empty:
            return {}
        if not isinstance(self.node, MappingNode):
            such = f" such as {example}" if example else ""
            self.wrong(f"expected keys and values{such}, not {_kind(self.node)}")
            return {}
        known = None if known is None else list(known)
        found: dict[str, Item] = {}
        for key, value in self._entries(self.node, set()):
            name = f"{self.name}.{key.value}" if self.name else str(key.value)
            if known is not None and key.value not in known:
                where = f"{self.name} has" if self.name else "an inventory has"
                hint = did_you_mean(key.value, known)
                self.mistakes.at(key, f"{where} no '{key.value}'{hint} (known: {', '.join(known)})")
            else:
                found[key.value] = Item(value, name, self.mistakes)
        return found

    def counts(self, example: str, *, name_of: Callable[[Item, str], str | None]) -> dict[str, int]:
        """Return name → count; `name_of` checks a name and notes what is wrong with it."""
        found: dict[str, int] = {}
        for key, item in self.fields(None, example).items():
            name, count = name_of(item, key), item.count()
            if name is not None and count is not None:
                found[name] = count
        return found

    def words(self, example: str) -> dict[str, str]:
        """Return name → text."""
        found = {key: item.text() for key, item in self.fields(None, example).items()}
        return {key: text for key, text in found.items() if text is not None}

    def environment(self) -> Mapping[str, str | Secret]:
        """Return environment variables; what comes from here, or is called so, is a secret."""
        found: dict[str, str | Secret] = {}
        for key, item in self.fields(None, "OMP_NUM_THREADS: 8").items():
            if not VARIABLE.fullmatch(key):
                item.wrong(
                    "no environment variable can have this name (letters, digits and _, a letter first)"
                )
            elif item.is_empty:
                item.wrong('expected a value; an empty one is ""')
            elif not isinstance(item.node, ScalarNode) or item.node.tag not in _PLAIN_TAGS:
                item.wrong(f"expected a value, not {_kind(item.node)}")
            else:
                value = item._variable(key, item.node.value)
                if value is not None:
                    found[key] = value
        return found

    def _entries(self, node: MappingNode, inside: set[int]) -> Iterator[tuple[ScalarNode, Node]]:
        """Yield the keys and values, those of `<<` last; a key that is there twice is a mistake."""
        seen: dict[str, ScalarNode] = {}
        merged: list[MappingNode] = []
        for key, value in node.value:
            if key.tag == _MERGE:
                parts = value.value if isinstance(value, SequenceNode) else [value]
                merged += [part for part in parts if isinstance(part, MappingNode)]
            elif not isinstance(key, ScalarNode):
                self.mistakes.at(key, f"a key is a word, not {_kind(key)}")
            elif key.value in seen:
                line = seen[key.value].start_mark.line + 1
                self.mistakes.at(key, f"'{key.value}' is already there, in line {line}")
            else:
                seen[key.value] = key
                yield key, value
        for part in merged:
            if id(part) in inside:
                self.mistakes.at(part, "this merges itself")
                continue
            for key, value in self._entries(part, {*inside, id(part)}):
                if key.value not in seen:
                    seen[key.value] = key
                    yield key, value

    def _resolved(self, text: str) -> str | None:
        """Replace `${oc.env:NAME}` in a text that will be shown and written."""
        found = interpolated(text)
        private = next((name for name in found.names if looks_secret(name)), None)
        if private:
            self.wrong(
                f"a secret (${private}) may stand under env only: this is shown in job scripts"
            )
        elif found.problem:
            self.wrong(found.problem)
        elif found.missing:
            self.wrong(unset(found.missing))
        else:
            return found.text
        return None

    def _variable(self, name: str, written: str) -> str | Secret | None:
        """Return the value of an environment variable; one that comes from here is a secret.

        One that is not set here is a mistake only when a run needs it: hosts and logs can be
        looked at without it.
        """
        found = interpolated(written)
        if found.problem:
            self.wrong(found.problem)
            return None
        if found.missing:
            where = f"{self.mistakes.path}, line {self.node.start_mark.line + 1}: {self.name}"
            return Secret(None, missing=f"{where}: {unset(found.missing)}")
        is_secret = found.names or looks_secret(name, found.text)
        return Secret(found.text) if is_secret else found.text


def _kind(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "keys and values"
    if isinstance(node, SequenceNode):
        return "a list"
    if node.tag == _NULL:
        return "nothing"
    return f"'{node.value}'" if node.tag in _PLAIN_TAGS else f"'{node.tag}'"
