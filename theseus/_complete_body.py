"""Where in a piece of YAML the cursor stands: which key is being written, or whose value.

The text is unfinished by nature, so this reads lines and braces and never fails: what it does not
understand has no place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_NAME = r"""(?:"([^"]*)"|'([^']*)'|([^\s#'"\[\]{},&*!|>%@`?-][^:#{}\[\],]*?))"""
_KEY = re.compile(_NAME + r"[^\S\n]*:(?=\s|$)[^\S\n]*")


@dataclass(frozen=True)
class Place:
    """What is being written: a key below `path` (`a.b`), or the value of the key `path`.

    `start` is where it begins in the text that was given.
    """

    kind: Literal["key", "value"]
    path: str
    start: int


@dataclass
class _Frame:
    opener: str
    path: str
    key: str = ""
    start: int = 0
    in_value: bool = False


def place(text: str) -> Place | None:
    """Return what is being written at the end of `text`, or None in a comment or a block of text."""
    open_keys: list[tuple[int, str]] = []  # indentation and path
    literal: int | None = None  # the indentation of a key whose value is a block of text
    flow: tuple[str, int] | None = None  # whose value begins with a brace that is still open
    offset = 0
    *before, current = text.split("\n")
    for line in before:
        stripped = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if flow is not None:
            if _flow(text[flow[1] : offset + len(line)], flow[0]) is None:
                flow = None
        elif literal is not None and (not stripped or indent > literal):
            pass
        elif stripped and not stripped.startswith("#"):
            literal = None
            # The items of a list may stand right below its key.
            _leave(open_keys, indent + stripped.startswith("- "))
            found = _KEY.match(line, indent)
            if found:
                path = _below(open_keys[-1][1] if open_keys else "", _name(found))
                open_keys.append((indent, path))
                value = line[found.end() :]
                if value[:1] in ("|", ">"):
                    literal = indent
                elif value[:1] in ("{", "[") and _flow(value, path) is not None:
                    flow = path, offset + found.end()
        offset += len(line) + 1
    if flow is not None:
        return _moved(_flow(text[flow[1] :], flow[0]), flow[1])
    indent = len(current) - len(current.lstrip(" "))
    if literal is not None and (not current.strip() or indent > literal):
        return None
    _leave(open_keys, indent + current[indent:].startswith("- "))
    return _moved(_on_line(current, indent, open_keys[-1][1] if open_keys else ""), offset)


def _on_line(line: str, indent: int, path: str) -> Place | None:
    rest = line[indent:]
    if re.search(r"(?:^|\s)#", rest):
        return None
    found = _KEY.match(line, indent)
    if found:
        key, start = _below(path, _name(found)), found.end()
        if found.end() == len(line) and line.endswith(":"):
            return None  # YAML wants a space between the colon and the value
        if line[start : start + 1] in ("{", "["):
            return _moved(_flow(line[start:], key), start)
        return Place("value", key, start)
    if rest.startswith("- "):
        return Place("value", path, len(line) - len(rest[2:].lstrip(" ")))
    if rest.startswith("{"):
        return _moved(_flow(rest, path), indent)
    return Place("key", path, indent)


def _flow(text: str, path: str) -> Place | None:
    """Return the place at the end of `{a: 1, b` or `[1, 2`; None when the braces are closed."""
    frames: list[_Frame] = []
    quote = ""
    for position, letter in enumerate(text):
        if quote:
            if letter == quote:
                quote = ""
            continue
        frame = frames[-1] if frames else None
        if letter in "\"'" and (frame is None or not text[frame.start : position].strip()):
            quote = letter
        elif letter in "{[":
            above = path if frame is None else _below(frame.path, frame.key)
            frames.append(_Frame(letter, above, start=position + 1, in_value=letter == "["))
        elif frame is None:
            continue
        elif letter in "}]":
            frames.pop()
            if not frames:
                return None
        elif letter == ",":
            frame.start, frame.in_value = position + 1, frame.opener == "["
            frame.key = ""
        elif (
            letter == ":" and not frame.in_value and text[position + 1 : position + 2] in (" ", "")
        ):
            frame.key = text[frame.start : position].strip().strip("\"'").replace("/", ".")
            frame.start, frame.in_value = position + 1, True
    if not frames:
        return None
    frame = frames[-1]
    start = frame.start + len(text[frame.start :]) - len(text[frame.start :].lstrip())
    if frame.in_value:
        return Place("value", _below(frame.path, frame.key), start)
    return Place("key", frame.path, start)


def _leave(open_keys: list[tuple[int, str]], indent: int) -> None:
    while open_keys and open_keys[-1][0] >= indent:
        open_keys.pop()


def _name(found: re.Match[str]) -> str:
    return next(part for part in found.groups() if part is not None).replace("/", ".")


def _below(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part)


def _moved(found: Place | None, by: int) -> Place | None:
    return None if found is None else Place(found.kind, found.path, found.start + by)
