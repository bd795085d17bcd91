"""A program at work on a host, seen from here: bytes in, two streams of bytes out."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import IO, Protocol

CHUNK = 1 << 18
NOT_STARTED = "theseus-not-started"  # said by a carrier that fails before it carries anything


class Process(Protocol):
    """The remote shell's three streams, as one transport or another carries them."""

    def send(self, data: bytes, timeout: float) -> None:
        """Write to its input; what nobody reads any more is dropped. TimeoutError when it is full."""

    def end_input(self) -> None:
        """Close its input."""

    def receive(self, timeout: float | None) -> tuple[bytes, bytes] | None:
        """Return what it wrote (output, errors); both empty at the end, None when none in time."""

    def lost(self) -> bool:
        """Return whether it was the connection that ended, rather than the program."""

    def close(self, *, done: bool) -> None:
        """Let go of it, and end it unless it is done."""


class ChildProcess:
    """A process of this machine: a shell, or the `ssh` program."""

    def __init__(self, command: Sequence[str], *, folder: str | None = None) -> None:
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C in a terminal or an interrupted kernel is for us to handle, not for the child.
            start_new_session=True,
            cwd=folder,
        )
        assert self._child.stdin
        assert self._child.stdout
        assert self._child.stderr
        self._input: IO[bytes] = self._child.stdin
        self._outputs = {
            stream.fileno(): stream for stream in (self._child.stdout, self._child.stderr)
        }
        self._out = self._child.stdout.fileno()
        self._poll = select.poll()
        for number in self._outputs:
            self._poll.register(number, select.POLLIN)
        self._open = set(self._outputs)
        os.set_blocking(self._input.fileno(), False)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def send(self, data: bytes, timeout: float) -> None:
        """Write to its input; what nobody reads any more is dropped."""
        view = memoryview(data)
        number = self._input.fileno()
        poll = select.poll()
        poll.register(number, select.POLLOUT)
        while view:
            if not poll.poll(timeout * 1000):
                raise TimeoutError
            try:
                view = view[os.write(number, view[:CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return

    def end_input(self) -> None:
        """Close its input."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()

    def receive(self, timeout: float | None) -> tuple[bytes, bytes] | None:
        """Return what it wrote; both empty at the end, None when nothing came in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._open:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = self._poll.poll(None if left is None else left * 1000)
            if not ready:
                return None
            out = err = b""
            for number, _ in ready:
                data = os.read(number, CHUNK)
                if not data:
                    self._poll.unregister(number)
                    self._open.discard(number)
                elif number == self._out:
                    out = data
                else:
                    err = data
            if out or err:
                return out, err
        return b"", b""

    def lost(self) -> bool:
        """Return False: there is no connection that could be lost."""
        return False

    def close(self, *, done: bool) -> None:
        """Let go of it, and end it unless it is done."""
        self.end_input()
        if not self._ended(1.0 if done else 0.0) and not done:
            self._end_group()
        for stream in self._outputs.values():
            stream.close()
        self._open.clear()

    def _ended(self, timeout: float) -> bool:
        try:
            self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _end_group(self) -> None:
        # The shell may sit in a program of its own: its whole group is told. What was started as a
        # session of its own (a run) is no member.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
            if self._ended(0.5):
                return
