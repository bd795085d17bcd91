"""The log of a run: what the process prints while the job works, and what it logs.

The streams of a process are shared by all of its threads, so the one pair of `sys.stdout` and
`sys.stderr` is replaced while any run is open, and each text goes to the run in whose context it
was printed; a thread that has no run of its own (a library's worker) is heard by all open runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from theseus.runs.files import Appender, RecordError


class TextStream(Protocol):
    """What is needed of the stream behind a tee."""

    def write(self, text: str, /) -> Any:
        """Write a text."""


class Log:
    """One log file that takes bytes from any thread."""

    def __init__(self, path: Path, failed: Callable[[str], None]) -> None:
        self._file: Appender | None = Appender(path)
        self._place = _place(path)
        self._failed = failed
        self._second, self._clock = 0, ""

    def is_behind(self, place: tuple[int, int] | None) -> bool:
        """Return whether a stream that writes to `place` writes to this very file already."""
        return place is not None and place == self._place

    def write(self, text: str) -> None:
        """Add a text as it is; when the disk refuses, say so once and stop logging.

        What a job prints must reach the user also when the log cannot have it.
        """
        file = self._file
        if file is None:
            return
        try:
            file.write(text.encode("utf-8", "backslashreplace"))
        except RecordError as error:
            self._file = None
            self._failed(f"the log ends here: {error}")

    def line(self, text: str) -> None:
        """Add a line of theseus's own, with the time in front."""
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        self.write(f"[{self._clock}] {text}\n")

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


_current: ContextVar[Log | None] = ContextVar("theseus_log", default=None)
_lock = threading.RLock()
_open: list[Log] = []


@contextlib.contextmanager
def captured(log: Log) -> Iterator[None]:
    """Copy to `log` what is printed and logged inside this block."""
    token = _current.set(log)
    with _lock:
        _open.append(log)
        if len(_open) == 1:
            _install()
    try:
        yield
    finally:
        with _lock:
            _open.remove(log)
            if not _open:
                _uninstall()
        with contextlib.suppress(ValueError):  # ended in another context, as in some async cells
            _current.reset(token)


class Tee:
    """A stream that passes everything on and copies what is written to the open logs.

    It stands for the stream that it replaced in every other respect.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._place = _place(stream)
        self._copies = True

    def write(self, text: str) -> Any:
        """Write to the stream, then to the logs."""
        written = self._stream.write(text)
        if self._copies and isinstance(text, str):
            _copy(text, self._place)
        return written

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def retire(self) -> Any:
        """Only pass on from now on; return the stream behind."""
        self._copies = False
        return self._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __repr__(self) -> str:
        return f"Tee({self._stream!r})"


def _copy(text: str, place: tuple[int, int] | None) -> None:
    own = _current.get()
    for log in [own] if own is not None else list(_open):
        if not log.is_behind(place):  # a worker's streams are its log
            log.write(text)


def _place(file: Any) -> tuple[int, int] | None:
    """Return what tells a file from every other; None for what is no file."""
    try:
        stat = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


class _Handler(logging.Handler):
    """Copies log records that are not going to be printed, and so copied, anyway."""

    def emit(self, record: logging.LogRecord) -> None:
        own = _current.get()
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - a record with a bad format must not end a job
            self.handleError(record)
            return
        if self._alone(record):
            # Without us, Python would print a warning that nobody handles; it must still do so.
            last = logging.lastResort
            if last is not None and record.levelno >= last.level:
                last.handle(record)
                return
        for log in [own] if own is not None else list(_open):
            log.line(text)

    def _alone(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


_handler = _Handler()
_handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
_tees: list[tuple[str, Tee]] = []


def _install() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None:  # a process without a terminal, as under `pythonw`
            tee = Tee(stream)
            _tees.append((name, tee))
            setattr(sys, name, tee)
    logging.getLogger().addHandler(_handler)


def _uninstall() -> None:
    logging.getLogger().removeHandler(_handler)
    while _tees:
        name, tee = _tees.pop()
        stream = tee.retire()
        if getattr(sys, name) is tee:  # else somebody has put another stream in front of ours
            setattr(sys, name, stream)
