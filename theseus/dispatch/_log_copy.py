"""The local copy of a log: the bytes as they are, in a file that only grows.

A remote log may be rotated or cut; the copy goes on, so an offset in it never changes its meaning.
How far the remote file was read needs no record: it is the size of the copy, less where the part of
the present remote file begins. Only that beginning is written down, before its first byte.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from pathlib import Path

from theseus.errors import UserError
from theseus.runs.files import Appender, RecordError, explained, read_json, write_json

_CHECKED = 256  # bytes by which a remote file is recognised


class LogCopy:
    """The copy of one log file, for the one process that makes it grow."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = copy_path(folder, name)
        self._state = self.path.with_suffix(".json")
        self._file: Appender | None = None
        self.size = self.path.stat().st_size if self.path.exists() else 0
        self.inode, self._start = self._read()

    def _read(self) -> tuple[int | None, int]:
        """Return the remote inode and where its part begins; None when nothing is known."""
        try:
            record = read_json(self._state)
        except RecordError:
            return None, self.size
        inode, start = record.get("inode"), record.get("start")
        if not isinstance(inode, int) or not isinstance(start, int) or start > self.size:
            return None, self.size
        return inode, start

    @property
    def offset(self) -> int:
        """How far the present remote file was read."""
        return self.size - self._start

    def begin(self, inode: int) -> None:
        """Go on with another remote file, from its beginning."""
        self._write(inode, self.size)

    def same(self, inode: int) -> None:
        """Go on with the same content under another inode."""
        self._write(inode, self._start)

    def _write(self, inode: int, start: int) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._state, {"inode": inode, "start": start}, durable=False)
        self.inode, self._start = inode, start

    def append(self, data: bytes) -> int:
        """Add bytes; return where in the copy they begin."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = Appender(self.path)
        self._file.write(data)
        at, self.size = self.size, self.size + len(data)
        return at

    def check(self) -> tuple[int, str]:
        """Return how many of the last bytes are checked, and their digest."""
        count = min(_CHECKED, self.offset)
        if not count or self.inode is None:
            return 0, "-"
        with self.path.open("rb") as file:
            file.seek(self.size - count)
            return count, hashlib.sha256(file.read(count)).hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def copy_path(folder: Path, name: str) -> Path:
    """Return where the copy of the log `name` lies."""
    if not re.fullmatch(r"[A-Za-z0-9@_-][A-Za-z0-9@._-]*", name):
        msg = f"a log's name is one plain word, not {name!r}"
        raise UserError(msg)
    return folder / f"{name}.log"


def read_copy(folder: Path, name: str, offset: int, size: int) -> bytes:
    """Return up to `size` bytes of the copy from `offset` on; none when there are none yet."""
    try:
        with copy_path(folder, name).open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        return b""


def offset_of_last_lines(folder: Path, name: str, count: int) -> int:
    """Return where the last `count` lines of the copy begin."""
    path = copy_path(folder, name)
    if count <= 0 or not path.exists():
        return path.stat().st_size if path.exists() else 0
    with path.open("rb") as file:
        start = end = file.seek(0, os.SEEK_END)
        ends = 0
        while start > 0:
            step = min(1 << 16, start)
            start -= step
            file.seek(start)
            block = file.read(step)
            if start + step == end and block.endswith(b"\n"):
                block = block[:-1]
            at = len(block)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                ends += 1
                if ends == count:
                    return start + at + 1
    return 0


class Lock:
    """Held by the one process, and the one reader in it, that makes a folder's copies grow.

    It ends with its holder, however that ends; others read what it writes, and take over.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".following"
        self._number = -1

    def take(self) -> bool:
        """Take the lock if nobody has it; return whether it is held here."""
        if self._number >= 0:
            return True
        with explained(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            number = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(number)
            return False
        self._number = number
        return True

    def release(self) -> None:
        """Let others have it."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1
