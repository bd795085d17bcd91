"""What a view of a log is sent: the newest text of growing files, never more than it can take.

A file is read from a window before its end. A view that falls behind, because more is printed than
it may be sent, is not sent the rest later: it goes on near the end, and is told what was left out.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NotRequired, TypedDict

from theseus.dispatch._log_events import Piece
from theseus.dispatch.log_secrets import Cover, covered
from theseus.dispatch.secrets import Secret, forms_of
from theseus.runs.words import shown_path

WINDOW = 256 * 1024  # bytes before the end of a file with which a view begins
BEHIND = 1024 * 1024  # bytes that a view may be behind, until it goes on near the end
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_ERASED = "\x18"  # stands for the escape that erases a line; nothing prints this character
_NEWLINE_WITHIN = 4096  # a window begins after the first line end within so many bytes


class Part(TypedDict):
    """Text of one log for a view, or a note about what it is not sent."""

    lane: str
    text: NotRequired[str]
    note: NotRequired[str]


class LogFeed:
    """The logs of one run, for one view: each call of `read` returns what is new.

    Parameters
    ----------
    lanes
        Returns the logs: a name for each, and the file that grows. A file may not be there yet.
    hidden
        What is covered in them.
    """

    def __init__(
        self, lanes: Callable[[], Mapping[str, Path]], hidden: Iterable[Secret] = ()
    ) -> None:
        self._find = lanes
        self._forms = forms_of(hidden)
        self._lanes: dict[str, _Lane] = {}

    def read(self, budget: int, *, last: bool = False) -> list[Part]:
        """Return what is new, in at most about `budget` bytes of JSON.

        What may be the beginning of a secret waits for what follows, unless it is the `last`.
        """
        for name, path in self._find().items():
            if name not in self._lanes:
                self._lanes[name] = _Lane(name, path, self._forms)
        parts: list[Part] = []
        # The one that had least of the last budgets comes first, so that no log starves another.
        for lane in sorted(self._lanes.values(), key=lambda one: one.sent):
            if budget < 256:
                break
            for part in lane.read(budget, last):
                cost = len(json.dumps(part, ensure_ascii=False).encode()) + 2
                budget -= cost
                lane.sent += cost
                parts.append(part)
        return parts

    @property
    def behind(self) -> bool:
        """Whether there is more to read now."""
        return any(lane.behind for lane in self._lanes.values())


class _Lane:
    """How far one log was sent."""

    def __init__(self, name: str, path: Path, forms: list[str]) -> None:
        self.name, self.path = name, path
        self._forms = forms
        self._cover = Cover(forms) if forms else None
        self.sent = 0
        self._position: int | None = None
        self._held = ""  # decoded, and not sent yet
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def behind(self) -> bool:
        return bool(self._held) or self._size() > (self._position or 0)

    def read(self, budget: int, last: bool) -> list[Part]:
        size = self._size()
        if not size:
            return []
        parts: list[Part] = []
        if self._position is None or size - self._position > BEHIND or size < self._position:
            parts += self._skip(size)
        room = min(budget - sum(len(part.get("note", "")) for part in parts), budget)
        if len(self._held) < room and self._position is not None:
            with self.path.open("rb") as file:
                file.seek(self._position)
                data = file.read(room - len(self._held))
            shown = self._covered(data, last and self._position + len(data) >= size)
            self._position += len(data)
            self._held += self._decoder.decode(shown)
        text = _fitting(self._held, room)
        self._held = self._held[len(text) :]
        if text:
            parts.append(Part(lane=self.name, text=text))
        return parts

    def _covered(self, data: bytes, last: bool) -> bytes:
        """Return what can be shown of bytes that were just read, and of those before them."""
        if self._cover is None:
            return data
        pieces = [self._cover.feed(Piece(self.name, self._position or 0, data))]
        if last:
            pieces.append(self._cover.rest())
        return b"".join(piece.data for piece in pieces if piece is not None)

    def _skip(self, size: int) -> list[Part]:
        """Go on near the end of the file; return what is to be said about that."""
        before = 0 if self._position is None else min(self._position, size)
        start = max(size - WINDOW, 0)
        if start > before:
            with self.path.open("rb") as file:
                file.seek(start)
                begun = file.read(_NEWLINE_WITHIN).find(b"\n")
            start += begun + 1  # from the beginning of a line, where one is near
        else:
            start = before
        self._position, self._held = start, ""
        self._cover = Cover(self._forms) if self._forms else None
        self._decoder.reset()
        if start == before:
            return []
        left, where = _size_text(start - before), shown_path(self.path)
        return [Part(lane=self.name, note=f"… {left} are not shown here; all of it is in {where}")]

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


def _fitting(text: str, budget: int) -> str:
    """Return the beginning of a text that takes at most `budget` bytes as JSON."""
    while text and (size := len(json.dumps(text, ensure_ascii=False).encode())) > budget:
        # Escapes are six times as long in JSON as they are: cut, and look again.
        text = text[: min(len(text) * budget // size, len(text) - 1)]
    return text


def _size_text(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{max(count / 1e3, 0.1):,.1f} KB"


def tail(path: Path, lines: int, limit: int = 8000, hidden: Iterable[Secret] = ()) -> str:
    """Return the last lines of a log as plain text, as a terminal would be left with them.

    For a saved notebook: what overwrote itself is gone, and nothing in it can be more than text.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - 8 * limit, 0))
            whole = Piece(path.stem, 0, file.read())
        shown_pieces = (one for one in covered([whole], hidden) if isinstance(one, Piece))
        text = b"".join(piece.data for piece in shown_pieces).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    shown = [plain(line) for line in text.split("\n")]
    if shown and not shown[-1]:
        shown.pop()
    kept: list[str] = []
    for line in reversed(shown[-lines:]):
        limit -= len(line) + 1
        if limit < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def plain(line: str) -> str:
    """Return what is left of a line without its escapes and what it overwrote."""
    shown: list[str] = []
    at = 0
    for character in _ESCAPE.sub(_kept, line).rstrip("\r"):
        if character == "\r":
            at = 0
        elif character == "\b":
            at = max(at - 1, 0)
        elif character == _ERASED:
            del shown[:]
            shown += " " * at
        else:
            shown[at : at + 1] = [_visible(character)]
            at += 1
    return "".join(shown)


def _kept(escape: re.Match[str]) -> str:
    return _ERASED if escape[0] == "\x1b[2K" else ""


def _visible(character: str) -> str:
    if character == "\t":
        return "    "
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
