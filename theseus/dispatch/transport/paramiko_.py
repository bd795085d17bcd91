"""SSH by paramiko: one connection per host that carries every command and stream."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any

import paramiko

from theseus.dispatch.transport.base import TransportError
from theseus.dispatch.transport.framing import COMMAND
from theseus.dispatch.transport.shell import Broken, NoRoom
from theseus.dispatch.transport.ssh_config import Settings

WINDOW = 1 << 22  # bytes on the way to us, so that a long line is filled
_AHEAD = 1 << 17
PACKET = 1 << 17
_ALIVE_INTERVAL = 10.0

LOGGER = "theseus.dispatch.paramiko"
_log = logging.getLogger(LOGGER)
_log.addHandler(logging.NullHandler())
_log.propagate = False  # paramiko prints tracebacks of what we report in one line


class Heard:
    """A socket that knows how long the other side has been silent.

    A connection through a stalled proxy or a laptop that slept looks alive for ever. The host is
    asked for a sign of life every few seconds (`ParamikoConnection`); when none comes, reading and
    writing fail as on a socket that was closed.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._since = time.monotonic()
        self._patience: float | None = None
        self._ahead = b""
        self._taken = 0

    def expect_signs(self, patience: float) -> None:
        """From now on, be silent for so long and the connection is lost."""
        self._since = time.monotonic()
        self._patience = patience

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes; TimeoutError when there are none yet, as a socket does."""
        # paramiko asks for a few bytes at a time: below it may be another paramiko, for which each
        # question is expensive.
        if self._taken == len(self._ahead):
            try:
                self._ahead = self._inner.recv(_AHEAD)
            except TimeoutError:
                self._check()
                raise
            self._taken = 0
            self._since = time.monotonic()
        data = self._ahead[self._taken : self._taken + size]
        self._taken += len(data)
        return data

    def send(self, data: bytes) -> int:
        """Send what can be sent; return how much that was."""
        try:
            sent: int = self._inner.send(data)
        except TimeoutError:
            self._check()
            raise
        return sent

    def _check(self) -> None:
        if self._patience is not None and time.monotonic() - self._since > self._patience:
            raise EOFError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Arrived(threading.Event):
    """Set when a channel has news; only its reader clears it."""

    def clear(self) -> None:
        """Keep what one of the two streams has set while the other has nothing."""

    def reset(self) -> None:
        """Clear it, by its reader, who then looks at both streams."""
        super().clear()


class ChannelProcess:
    """A remote shell on a channel of its own."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._arrived = _Arrived()
        channel.in_buffer.set_event(self._arrived)
        channel.in_stderr_buffer.set_event(self._arrived)

    def send(self, data: bytes, timeout: float) -> None:
        """Write to its input; what nobody reads any more is dropped."""
        self._channel.settimeout(timeout)
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise
        except (OSError, EOFError):  # "Socket is closed": the reading side finds out why
            return

    def end_input(self) -> None:
        """Close its input."""
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def receive(self, timeout: float | None) -> tuple[bytes, bytes] | None:
        """Return what it wrote; both empty at the end, None when nothing came in time."""
        channel = self._channel
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._arrived.reset()
            ended = (
                channel.eof_received or channel.closed or not channel.get_transport().is_active()
            )
            try:
                out = channel.recv(WINDOW) if channel.recv_ready() else b""
                err = channel.recv_stderr(WINDOW) if channel.recv_stderr_ready() else b""
            except (OSError, EOFError):
                # Taking data also tells the other side that there is room for more, and the line
                # is cut: what was taken is lost, as is the connection.
                channel.get_transport().close()
                return b"", b""
            if out or err:
                return out, err
            if ended:
                return b"", b""
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._arrived.wait(left)

    def lost(self) -> bool:
        """Return whether it was the connection that ended, rather than the program."""
        return not self._channel.get_transport().is_active()

    def close(self, *, done: bool) -> None:
        """Let go of it: what still runs ends when it next writes."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


class ParamikoConnection:
    """An authenticated connection, and those below it that it goes through."""

    def __init__(self, host: str, transport: Any, below: list[Any], settings: Settings) -> None:
        self.transport = transport
        self._host, self._below = host, below
        interval = settings.alive_interval or _ALIVE_INTERVAL
        transport.sock.expect_signs(interval * (settings.alive_count or 1) + 1.0)
        transport.packetizer.set_keepalive(interval, self._ask_for_a_sign)

    def _ask_for_a_sign(self) -> None:
        if not self.transport.clear_to_send.is_set():
            return  # keys are being exchanged, which is a sign too
        request = paramiko.Message()
        request.add_byte(bytes([80]))  # SSH_MSG_GLOBAL_REQUEST
        request.add_string("keepalive@openssh.com")
        request.add_boolean(True)  # paramiko's own keepalive wants no answer, so it notices nothing
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self.transport._send_message(request)

    @property
    def alive(self) -> bool:
        """Whether it stands, as far as can be told without asking."""
        return bool(self.transport.is_active())

    def start(self, timeout: float) -> ChannelProcess:
        """Start a `/bin/sh` that reads its input."""
        deadline = time.monotonic() + timeout
        try:
            channel = self.transport.open_session(
                window_size=WINDOW, max_packet_size=PACKET, timeout=timeout
            )
        except paramiko.ChannelException as error:
            raise NoRoom from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            # When several channels are refused at once, paramiko gives the reason to one of them.
            refused = self.alive and time.monotonic() < deadline
            raise NoRoom if refused else Broken from error
        # paramiko waits for this answer for ever; closing the channel ends that.
        watchdog = threading.Timer(max(0.1, deadline - time.monotonic()), channel.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            channel.exec_command(" ".join(COMMAND))
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self.transport.is_active() and time.monotonic() < deadline:
                message = "the server refuses to run commands (a `ForceCommand`, or sftp only?)"
                raise TransportError(self._host, "protocol", message) from error
            raise Broken from error
        finally:
            watchdog.cancel()
        return ChannelProcess(channel)

    def close(self) -> None:
        """End it and everything on it, quickly."""
        self.transport.close()
        for below in reversed(self._below):
            below.close()
