"""One program at work on a host: its framed answer, as it comes or as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NoReturn

from theseus.dispatch.transport.base import Answer, TransportError
from theseus.dispatch.transport.framing import Frame, Unframed
from theseus.dispatch.transport.process import NOT_STARTED, Process

START_TIMEOUT = 30.0  # for a login shell's start-up files
STALL_TIMEOUT = 60.0  # for a host that takes no more input
_PIECE = 1 << 18


class NotStarted(Exception):
    """The connection broke before the program was started, for certain: another may be tried."""


class Session:
    """A program that was sent to a host, and what has come back so far."""

    def __init__(
        self, host: str, process: Process, program: str, arguments: tuple[str, ...], deadline: float
    ) -> None:
        self._host, self._process = host, process
        self._deadline = deadline
        frame = Frame()
        self._out, self._err = Unframed(frame), Unframed(frame)
        self._read = b""
        self._errors: list[bytes] = []
        self._closed = False
        try:
            self._process.send(frame.text(program, arguments), self._left())
        except TimeoutError:
            self._timed_out()

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    @property
    def begun(self) -> bool:
        """Whether the program runs, and so may be sent input."""
        return self._out.begun

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return self._out.status is not None and self._err.status is not None

    @property
    def errors(self) -> bytes:
        """What the program has written to its error stream."""
        return b"".join(self._errors)

    @property
    def answer(self) -> Answer | None:
        """How the program ended, without its output; None before it has."""
        status = self._out.status
        return Answer(status, b"", self.errors) if status is not None and self.done else None

    def set_deadline(self, deadline: float) -> None:
        """Say until when the next thing must have happened."""
        self._deadline = deadline

    def _receive(self, timeout: float) -> bool:
        """Take in what comes next; return whether something came in time."""
        try:
            received = self._process.receive(timeout)
        except ValueError:  # closed by another thread
            self._ended()
        if received is None:
            return False
        out, err = received
        if not out and not err:
            self._ended()
        if out:
            self._read += self._out.feed(out)
        if err:
            self._errors.append(self._err.feed(err))
        return True

    def begin(self) -> None:
        """Wait until the program runs."""
        while not self.begun:
            if not self._receive(self._left()):
                self._timed_out()

    def read(self, timeout: float | None) -> bytes | None:
        """Return the next bytes of the output, `b""` after the last, None when none came in time.

        Without a time, the session's own deadline ends the waiting with an error.
        """
        until = self._deadline if timeout is None else time.monotonic() + timeout
        while not self._read and not self.done:
            if not self._receive(max(0.0, until - time.monotonic())):
                if timeout is None:
                    self._timed_out()
                return None
        data, self._read = self._read, b""
        return data

    def line(self) -> bytes:
        """Return the next line of the output without its end; what is left of it at the end."""
        while b"\n" not in self._read and not self.done:
            if not self._receive(self._left()):
                self._timed_out()
        line, _, self._read = self._read.partition(b"\n")
        return line

    def finish(self) -> Answer:
        """Wait for the end; return the answer with all output that was not read before."""
        chunks = []
        while True:
            chunk = self.read(None)
            if not chunk:
                break
            chunks.append(chunk)
        status = self._out.status
        assert status is not None
        return Answer(status, b"".join(chunks), self.errors)

    def send(self, data: bytes) -> None:
        """Write to the program's input."""
        for start in range(0, len(data), _PIECE):
            try:
                self._process.send(data[start : start + _PIECE], STALL_TIMEOUT)
            except TimeoutError:
                self._timed_out(f"took no more data for {STALL_TIMEOUT:.0f} seconds")

    def feed(self, data: bytes) -> None:
        """Write to the program's input and close it, while this thread reads the answer."""
        threading.Thread(
            target=self._feed, args=(data,), name=f"theseus input {self._host}", daemon=True
        ).start()

    def _feed(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), _PIECE):
                self._process.send(data[start : start + _PIECE], self._left())
            self._process.end_input()
        except (TimeoutError, OSError, ValueError):
            pass  # the reading side finds out and says so

    def end_input(self) -> None:
        """Say that nothing more will be sent."""
        self._process.end_input()

    def close(self) -> None:
        """Let go of the program, and end it if it still runs."""
        if not self._closed:
            self._closed = True
            self._process.close(done=self.done)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _timed_out(self, what: str = "did not answer in time") -> NoReturn:
        raise TransportError(self._host, "timeout", what)

    def _ended(self) -> NoReturn:
        if self._closed:
            raise TransportError(self._host, "lost", "the program's stream was closed here")
        lost = self._process.lost()
        if lost and not self.begun and NOT_STARTED.encode() in self._err.unread:
            raise NotStarted
        if lost or self.begun:
            what = "the connection" if lost else "the remote shell"
            raise TransportError(self._host, "lost", f"{what} ended before the answer was complete")
        raise TransportError(self._host, "protocol", _no_answer(self._out.noise, self._err.noise))


def _no_answer(out: bytes, err: bytes) -> str:
    said = b"\n".join(part.strip() for part in (out, err) if part.strip())
    lines = said.decode("utf-8", "replace").splitlines()
    text = "; ".join(lines[-3:]) or "nothing"
    return (
        f"/bin/sh did not start; it said: {text}. Commands must be allowed for this account: "
        "try `ssh HOST /bin/sh -c true`, and look at the start-up files of its login shell "
        "(in .bashrc, `[[ $- != *i* ]] && return` at the top keeps it silent for programs)"
    )


class Stream:
    """What a program writes, as it is written."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __iter__(self) -> Iterator[bytes]:
        try:
            while True:
                self._session.set_deadline(time.monotonic() + 3600.0)
                data = self.read(3600.0)
                if data == b"":
                    return
                if data is not None:
                    yield data
        finally:
            self.close()

    def read(self, timeout: float | None = None) -> bytes | None:
        """Return the next chunk, `b""` at the end, None when nothing came in time."""
        if timeout is not None:
            return self._session.read(timeout)
        while (data := self._session.read(3600.0)) is None:
            pass
        return data

    @property
    def answer(self) -> Answer | None:
        """How the program ended, without its output; None before it has."""
        return self._session.answer

    def close(self) -> None:
        """End the program, if it still runs."""
        self._session.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
