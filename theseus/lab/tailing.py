"""A log as it grows, for one reader: its newest part, covered, in pieces of whole characters.

A reader who falls behind, because more is printed than may be sent, is not sent the rest later: it
goes on near the end, and sees from the offsets that something is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from theseus.dispatch._log_copy import read_copy
from theseus.dispatch.log_secrets import covered
from theseus.dispatch.logs import Notice, Piece
from theseus.dispatch.secrets import Secret
from theseus.lab.covering import cut, margin_of, size_of

WINDOW = 256 * 1024  # bytes before the end with which a reader begins who knows nothing
REACH = 1024 * 1024  # bytes before the end from which a reader can go on
BEHIND = 2 * WINDOW  # bytes that a reader may be behind, until it goes on near the end
_LINE = 4096  # bytes within which a line end is looked for to begin after
_NOTHING = Notice(None, "waiting", "")  # between pieces: there is no more for now
_END = 1 << 62


# Text of one log: the bytes from `from` to before `to`, in the copy on this machine.
Part = TypedDict("Part", {"rank": str, "from": int, "to": int, "text": str})


class Tail:
    """One log for one reader: each call of `read` returns what is new.

    Parameters
    ----------
    folder, name
        Where the copy is, and whose log it is.
    hidden
        What is covered in it.
    start
        The offset of the first byte that is wanted; None, or one that is too far back, begins near
        the end.
    """

    def __init__(
        self, folder: Path, name: str, hidden: tuple[Secret, ...], start: int | None
    ) -> None:
        self.folder, self.name = folder, name
        self._hidden = hidden
        self.done = False  # nothing more will come
        self._room = 0
        self._last = False
        size = size_of(folder, name)
        near = start is not None and size - REACH <= start
        self._begin(start if near and start is not None else _near_end(folder, name, size))
        self._reach = size - self.at + BEHIND  # who asked for more may have it

    def _begin(self, at: int) -> None:
        self._start = self.at = self._position = at
        self._rest = b""  # of a character
        self._events = covered(self._pieces(at), self._hidden)

    @property
    def behind(self) -> bool:
        """Whether there is more to read now."""
        return size_of(self.folder, self.name) > self._position

    def read(self, room: int, *, last: bool) -> Part | None:
        """Return the next text.

        Parameters
        ----------
        room
            How many bytes are read at most.
        last
            Whether the log has ended, so that what is here is all of it.
        """
        size = size_of(self.folder, self.name)
        if size - self._position > max(BEHIND, self._reach) or size < self._position:
            self._begin(_near_end(self.folder, self.name, size))
        self._room, self._last = room, last
        data = self._rest
        for event in self._events:
            if isinstance(event, Notice):
                break
            data += cut(event, self._start, _END).data
        else:
            self.done = True
        whole = len(data) if self.done else len(data) - open_character(data)
        self._rest = data[whole:]
        if not whole:
            return None
        start, self.at = self.at, self.at + whole
        text = data[:whole].decode("utf-8", "replace")
        return {"rank": self.name, "from": start, "to": self.at, "text": text}

    def _pieces(self, at: int) -> Iterator[Piece | Notice]:
        at = max(at - margin_of(self._hidden), 0)
        while True:
            if data := read_copy(self.folder, self.name, at, self._room):
                yield Piece(self.name, at, data)
                at += len(data)
                self._position = at
            elif self._last:
                return
            yield _NOTHING


def open_character(data: bytes) -> int:
    """Return how many of the last bytes begin a character of UTF-8 that is not complete."""
    for back in range(1, min(len(data), 3) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return back if size > back else 0
    return 0


def _near_end(folder: Path, name: str, size: int) -> int:
    """Return where to begin near the end: at a line's beginning, where there is one."""
    start = max(size - WINDOW, 0)
    if not start:
        return 0
    return start + read_copy(folder, name, start, _LINE).find(b"\n") + 1
