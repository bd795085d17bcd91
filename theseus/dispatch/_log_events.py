"""What a reader of logs is given: bytes, notices, and the text in the bytes."""

from __future__ import annotations

import codecs
import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

NoticeKind = Literal["waiting", "rotated", "cut", "gap", "lost", "back"]


@dataclass(frozen=True)
class Piece:
    """Bytes of one log.

    Attributes
    ----------
    name
        Which log, as it was named to `follow`.
    offset
        Where they begin in the local copy.
    data
        The bytes as they were printed; a character may be cut at either end (see `LogText`).
    """

    name: str
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """Where in the copy the next piece begins: what a reader keeps in order to go on."""
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Notice:
    """Something that a person who reads the log should know.

    Attributes
    ----------
    kind
        `waiting`: there is no such file yet; `rotated`: another file has taken its name; `cut`: it
        was emptied and begins anew; `gap`: a rotated file is gone before it was read to its end;
        `lost`: the host is out of reach, and is tried again; `back`: it is heard again.
    """

    name: str | None
    kind: NoticeKind
    text: str


class LogText:
    """Pieces as text, for one reader: a character that was cut in two is put together again."""

    def __init__(self) -> None:
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    def feed(self, piece: Piece) -> str:
        """Return the text of the next piece of its log; what is not UTF-8 is replaced."""
        decoder = self._decoders.get(piece.name)
        data = piece.data
        if decoder is None:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._decoders[piece.name] = decoder
            if piece.offset:  # began in the middle, perhaps of a character
                whole = data.lstrip(bytes(range(0x80, 0xC0)))
                data = whole if len(data) - len(whole) <= 3 else data
        return decoder.decode(data)

    def rest(self, name: str) -> str:
        """Return what is left of a log that ends within a character."""
        decoder = self._decoders.pop(name, None)
        return decoder.decode(b"", final=True) if decoder else ""


class RankLines:
    """The texts of several nodes' logs as lines that say whose they are; of one log, as it is."""

    def __init__(self, several: bool) -> None:
        self._several = several
        self._begun: dict[str, str] = {}

    def take(self, name: str, text: str) -> str:
        """Return the lines that the next text of a log completes."""
        if not self._several:
            return text
        *lines, self._begun[name] = (self._begun.get(name, "") + text).split("\n")
        return "".join(f"{name} | {line}\n" for line in lines)

    def rest(self, name: str, text: str) -> str:
        """Return what is left when the log ends with this text."""
        left = self.take(name, text)
        begun = self._begun.pop(name, "")
        return f"{left}{name} | {begun}\n" if begun else left


def merged(
    followings: Iterable[Iterator[Piece | Notice]], stop: threading.Event
) -> Iterator[Piece | Notice]:
    """Yield what several followings (of several hosts) yield, as it comes.

    Parameters
    ----------
    followings
        Each made with the same `stop`.
    stop
        Set when the merged iterator is closed, so that all of them end.
    """
    events: queue.Queue[Piece | Notice | BaseException | None] = queue.Queue(maxsize=64)

    def put(event: Piece | Notice | BaseException | None) -> None:
        while True:
            with contextlib.suppress(queue.Full):
                events.put(event, timeout=0.2)
                return
            if stop.is_set():
                return

    def carry(following: Iterator[Piece | Notice]) -> None:
        try:
            for event in following:
                put(event)
        except Exception as error:  # noqa: BLE001 - raised again where it is read
            put(error)
        finally:
            put(None)

    threads = [
        threading.Thread(target=carry, args=(each,), name="theseus logs", daemon=True)
        for each in followings
    ]
    for thread in threads:
        thread.start()
    try:
        open_ = len(threads)
        while open_:
            event = events.get()
            if event is None:
                open_ -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                yield event
    finally:
        stop.set()
        for thread in threads:
            thread.join(2)
