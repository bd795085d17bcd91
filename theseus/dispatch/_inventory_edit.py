"""Adding entries to an inventory file: every line that is there stays as it is.

The file belongs to a person: its comments, order, indentation and line ends are kept because
nothing but new lines is written. Afterwards the whole is read again, and it is written only when
it says what it said before, and the new entries.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theseus.dispatch.inventory import InventoryError, parse_inventory

if TYPE_CHECKING:
    from yaml.nodes import Node


@dataclass(frozen=True)
class Line:
    """One key of an entry, its value as plain data, and what is said about it."""

    key: str
    value: str | int | Sequence[str] | Mapping[str, int]
    comment: str = ""


@dataclass(frozen=True)
class Entry:
    """One cluster or host."""

    section: str
    name: str
    lines: tuple[Line, ...]

    def text(self, indent: int = 2) -> list[str]:
        """Return its lines of YAML; the name stands `indent` columns in."""
        outer, inner = " " * indent, " " * (indent + 2)
        rows = [f"{outer}{_flow(self.name)}:"]
        for line in self.lines:
            comment = f"  # {' '.join(line.comment.split())}" if line.comment else ""
            rows.append(f"{inner}{line.key}: {_flow(line.value)}{comment}")
        return rows


def shown(entries: Sequence[Entry]) -> str:
    """Return the entries as a file of their own would have them."""
    return with_entries("", entries)


def with_entries(text: str, entries: Sequence[Entry], path: Path = Path("inventory")) -> str:
    """Return the text of an inventory with these entries added.

    Raises
    ------
    InventoryError
        When they cannot be added without touching what is there; the message has the lines.
    """
    before = _said(text, path)
    if not isinstance(before, dict):
        raise _by_hand(path, entries)
    wanted = _with(before, entries)
    new = text
    try:
        for entry in entries:
            new = _inserted(new, entry, path)
        is_right = _said(new, path) == wanted
    except InventoryError as error:  # what was added makes no YAML with what is there
        raise _by_hand(path, entries) from error
    if not is_right:
        raise _by_hand(path, entries)
    return new


def write_entries(path: Path, entries: Sequence[Entry]) -> None:
    """Add entries to a file, which is made when it is not there, and replaced whole or not at all.

    Raises
    ------
    InventoryError
        When that cannot be done; the file is as it was.
    """
    try:
        target = path.expanduser().resolve()  # a link to a folder of dotfiles stays one
        old = target.read_bytes() if target.exists() else None
        text = "" if old is None else old.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        raise InventoryError(msg) from error
    new = with_entries(text, entries, path)
    parse_inventory(new, path)
    try:
        _replace(target, old, new.encode("utf-8"))
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise InventoryError(msg) from error


def _replace(target: Path, old: bytes | None, new: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # An inventory may hold passwords: a new one is for its owner alone.
    mode = stat.S_IMODE(target.stat().st_mode) if old is not None else 0o600
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 (an open handle)
            file.write(new)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        if old is None:
            os.link(temporary, target)  # fails when somebody else was faster
        elif target.read_bytes() != old:
            msg = f"{target} was changed by somebody else meanwhile: try again"
            raise InventoryError(msg)
        else:
            temporary.replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _inserted(text: str, entry: Entry, path: Path) -> str:
    """Return the text with an entry at the end of its section."""
    from theseus.dispatch._inventory_yaml import compose

    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    root = compose(text, path)
    keys = [] if root is None else _block_keys(root)
    if keys is None:
        raise _by_hand(path, [entry])
    places = [(key.start_mark.line, key.value, value) for key, value in keys]
    here = next((place for place in places if place[1] == entry.section), None)
    if here is None:
        gap = [end] if any(line.strip() for line in lines) else []
        added = [f"{line}{end}" for line in (f"{entry.section}:", *entry.text())]
        return "".join([*lines, *gap, *added])
    start, _, value = here
    inside = _block_keys(value)
    if inside is None and not _is_null(value):
        raise _by_hand(path, [entry])
    indent = inside[0][0].start_mark.column if inside else 2
    stop = min((line for line, _, _ in places if line > start), default=len(lines))
    # What stands before the next section and is not indented belongs to that one.
    while stop > start + 1 and (not lines[stop - 1].strip() or lines[stop - 1].startswith("#")):
        stop -= 1
    # Between entries there is a blank line where the file's others have one.
    spaced = inside is not None and any(
        not lines[key.start_mark.line - 1].strip() for key, _ in inside[1:]
    )
    added = [*([""] if spaced else []), *entry.text(indent)]
    lines[stop:stop] = [f"{line}{end}" for line in added]
    return "".join(lines)


def _block_keys(node: Node) -> list[tuple[Any, Any]] | None:
    """Return the keys and values of a mapping that is written in lines, not in braces."""
    from yaml.nodes import MappingNode

    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        return list(node.value)
    return None


def _is_null(node: Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null" and node.value == ""


def _said(text: str, path: Path) -> Any:
    """Return what a text says, with every scalar as written."""
    from theseus.dispatch._inventory_yaml import compose

    root = compose(text, path)
    return {} if root is None else _data(root, 0)


def _data(node: Node, depth: int) -> Any:
    from yaml.nodes import MappingNode, SequenceNode

    if depth > 40:  # an alias of what it is in
        return None
    if isinstance(node, MappingNode):
        return {str(key.value): _data(value, depth + 1) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [_data(item, depth + 1) for item in node.value]
    return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)


def _with(said: Mapping[str, Any], entries: Sequence[Entry]) -> Any:
    """Return what a file should say once it has the entries."""
    whole = {key: dict(value) if isinstance(value, dict) else value for key, value in said.items()}
    for entry in entries:
        section = whole.get(entry.section) or {}
        if entry.name in section:
            msg = f"'{entry.name}' is already in {entry.section}: it would be lost"
            raise InventoryError(msg)
        added = {line.key: _as_written(line.value) for line in entry.lines}
        whole[entry.section] = {**section, entry.name: added}
    return whole


def _as_written(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_written(item) for key, item in value.items()}
    return str(value) if isinstance(value, str | int) else [str(item) for item in value]


def _flow(value: Any) -> str:
    """Return plain data on one line of YAML."""
    import yaml

    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if not isinstance(value, str | int):
        return "[" + ", ".join(map(_flow, value)) + "]"
    # As an item of a list: what may stay unquoted there may do so everywhere.
    text = yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=float("inf"))
    return str(text).strip()[1:-1]


def _by_hand(path: Path, entries: Sequence[Entry]) -> InventoryError:
    lines = "\n".join("\n".join([f"{entry.section}:", *entry.text()]) for entry in entries)
    msg = (
        f"{path} is written in a way that cannot be added to without changing it "
        f"(braces, or an alias, where a section is). Add these lines yourself:\n{lines}"
    )
    return InventoryError(msg)
