"""Following the logs of a run: every byte once, over any number of losses and readers.

The bytes go to a local copy first, then to whoever follows; so a reader that begins again, in this
process or another, goes on where it was. While one reader fetches, others read its copy.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

from theseus.dispatch._log_copy import Lock, LogCopy, offset_of_last_lines, read_copy
from theseus.dispatch._log_events import LogText, Notice, Piece, RankLines, merged
from theseus.dispatch._log_program import PROGRAM, Note, Notes
from theseus.dispatch.transport.base import ByteStream, Transport, TransportError

__all__ = [
    "LogText",
    "Notice",
    "Piece",
    "RankLines",
    "follow",
    "merged",
    "offset_of_last_lines",
]

LOOK = 0.18  # seconds between looks at the files, on the host
SILENCE = 15.0  # seconds without a word (there is one every second) until a stream counts as lost
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_TURN = 0.25  # seconds until somebody who asked to stop is heard
_BLOCK = 1 << 20


class _Desynchronised(Exception):
    """The file has changed under the reading; look at it afresh."""


def follow(
    transport: Transport,
    files: Mapping[str, str],
    folder: Path,
    *,
    since: Mapping[str, int] | None = None,
    ended: Callable[[], bool] = lambda: False,
    stop: threading.Event | None = None,
    once: bool = False,
) -> Generator[Piece | Notice, None, None]:
    """Yield what the logs hold and what is added to them.

    Parameters
    ----------
    transport
        The host.
    files
        The logs: a plain word for each (the rank), and its full path on the host. One that does
        not exist yet is waited for.
    folder
        Where the local copies are; `NAME.log` there is complete, byte for byte.
    since
        Where to begin in each local copy; the beginning where nothing is said.
    ended
        Whether nothing more will be written. Asked about once a second; once it says so, the logs
        are read to their ends and following ends.
    stop
        Set it, from any thread, to end following soon.
    once
        Bring the copies up to date, and end.

    Raises
    ------
    TransportError
        When the host cannot be reached at the beginning; later losses are notices.
    """
    stop = stop or threading.Event()
    position = {name: (since or {}).get(name, 0) for name in files}
    lock = Lock(folder)
    try:
        while not lock.take():  # somebody else fetches: read along
            yield from _new_in_copies(folder, position)
            if stop.wait(0.1):
                return
        yield from _new_in_copies(folder, position)
        for event in _fetch(transport, files, folder, ended=ended, stop=stop, once=once):
            # A reader may begin ahead of what there is; those bytes it does not want.
            if isinstance(event, Piece):
                if event.end <= position[event.name]:
                    continue
                position[event.name] = event.end
            yield event
    finally:
        lock.release()


def _new_in_copies(folder: Path, position: dict[str, int]) -> Iterator[Piece]:
    for name in list(position):
        while data := read_copy(folder, name, position[name], _BLOCK):
            piece = Piece(name, position[name], data)
            position[name] = piece.end
            yield piece


def _fetch(
    transport: Transport,
    files: Mapping[str, str],
    folder: Path,
    *,
    ended: Callable[[], bool],
    stop: threading.Event,
    once: bool,
) -> Iterator[Piece | Notice]:
    """Make the copies grow, and yield what is new in them."""
    copies = {name: LogCopy(folder, name) for name in files}
    told: set[str] = set()  # who waits for a file was told so
    reached, heard, pause = False, True, _FIRST_PAUSE
    last = once
    try:
        while not stop.is_set():
            try:
                for event in _one_stream(
                    transport, files, copies, ended=ended, stop=stop, once=last
                ):
                    if not heard:
                        heard = True
                        yield Notice(None, "back", f"host '{transport.name}' is heard again")
                    reached, pause = True, _FIRST_PAUSE
                    if isinstance(event, Notice) and event.kind == "waiting":
                        if event.name in told:
                            continue
                        told.add(event.name or "")
                    if event is not None:
                        yield event
            except _Desynchronised:
                continue
            except TransportError as error:
                if not reached:
                    raise
                heard = False
                yield Notice(None, "lost", f"{error}; trying again in {pause:.2g} s")
                if stop.wait(pause * random.uniform(0.8, 1.2)):  # noqa: S311 - no secret
                    return
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if last or stop.is_set():
                return
            last = True  # nothing more will be written: one last look
    finally:
        for copy in copies.values():
            copy.close()


def _one_stream(
    transport: Transport,
    files: Mapping[str, str],
    copies: Mapping[str, LogCopy],
    *,
    ended: Callable[[], bool],
    stop: threading.Event,
    once: bool,
) -> Iterator[Piece | Notice | None]:
    """Yield what one connection brings; return when it has come to the end, or should not go on.

    None says that the host was heard, though it had nothing to say.
    """
    mark = secrets.token_hex(12)
    arguments = [mark, "once" if once else "follow", f"{LOOK:g}"]
    for name, path in files.items():
        copy = copies[name]
        count, digest = copy.check()
        inode = "-" if copy.inode is None else str(copy.inode)
        arguments += [path, inode, str(copy.offset), str(count), digest]
    stream = transport.stream(PROGRAM, *arguments)
    try:
        yield None
        reader = _Reader(transport.name, files, copies)
        notes = Notes(mark)
        heard = asked = time.monotonic()
        while not stop.is_set():
            data = _read(stream, transport, heard)
            now = time.monotonic()
            if data is not None:
                heard = now
                for note in notes.feed(data):
                    if note.what == "end":
                        return
                    yield from reader.take(note)
                if not data:
                    answer = stream.answer
                    said = answer.complaint if answer else ""
                    message = f"the program that reads the logs ended: {said or 'no reason given'}"
                    raise TransportError(transport.name, "protocol", message)
            if not once and now - asked >= 1.0:
                asked = now
                if ended():
                    return
    finally:
        stream.close()


def _read(stream: ByteStream, transport: Transport, heard: float) -> bytes | None:
    data = stream.read(_TURN)
    if data is None and time.monotonic() - heard > SILENCE:
        suspect = getattr(transport, "suspect", None)
        if suspect is not None:
            suspect()
        message = f"nothing was heard for {SILENCE:.0f} seconds"
        raise TransportError(transport.name, "lost", message)
    return data


class _Reader:
    """Brings notes into the copies."""

    def __init__(self, host: str, files: Mapping[str, str], copies: Mapping[str, LogCopy]) -> None:
        self._host, self._files = host, files
        self._names = list(files)
        self._copies = copies
        self._current: str | None = None

    def take(self, note: Note) -> Iterator[Piece | Notice | None]:
        """Take one note; yield what a reader should see."""
        if note.what == "bytes":
            if self._current is None:
                raise _Desynchronised
            at = self._copies[self._current].append(note.data)
            yield Piece(self._current, at, note.data)
            return
        self._current = None
        if not 0 <= note.file < len(self._names):
            yield None
            return
        name = self._names[note.file]
        copy, where = self._copies[name], f"{self._files[name]} on host '{self._host}'"
        if note.what == "data":
            # What is missing was cut off while it was read.
            if note.inode != copy.inode or note.offset != copy.offset:
                raise _Desynchronised
            self._current = name
        elif note.what == "new":
            known = copy.inode is not None
            copy.begin(note.inode)
            if known:
                yield Notice(name, "rotated", f"another file is now {where}")
        elif note.what == "cut":
            copy.begin(note.inode)
            yield Notice(name, "cut", f"{where} was emptied and begins anew")
        elif note.what == "same":
            copy.same(note.inode)
        elif note.what == "gap":
            yield Notice(name, "gap", f"{where} was rotated away before it was read to its end")
        elif note.what == "none":
            yield Notice(name, "waiting", f"there is no log yet: {where}")
