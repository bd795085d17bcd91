"""SSH by paramiko: one connection per host that carries every command and stream."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import threading
import time
from dataclasses import replace
from typing import Any

import paramiko

from theseus.dispatch.transport import known_hosts
from theseus.dispatch.transport.base import Kind, TransportError
from theseus.dispatch.transport.framing import COMMAND
from theseus.dispatch.transport.identities import identities
from theseus.dispatch.transport.shell import Broken, NoRoom
from theseus.dispatch.transport.ssh_config import Settings, parse_jump, read_settings, with_tokens

_WINDOW = 1 << 22  # bytes on the way to us, so that a long line is filled
_AHEAD = 1 << 17
_PACKET = 1 << 17
_ALIVE_INTERVAL = 10.0
_MOST_JUMPS = 8

_log = logging.getLogger("theseus.dispatch.paramiko")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # paramiko prints tracebacks of what we report in one line


class Incapable(Exception):
    """What the host wants is beyond paramiko; OpenSSH may be able to."""


class _Heard:
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
            out = channel.recv(_WINDOW) if channel.recv_ready() else b""
            err = channel.recv_stderr(_WINDOW) if channel.recv_stderr_ready() else b""
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
        self._host, self._transport, self._below = host, transport, below
        interval = settings.alive_interval or _ALIVE_INTERVAL
        transport.sock.expect_signs(interval * (settings.alive_count or 1) + 1.0)
        transport.packetizer.set_keepalive(interval, self._ask_for_a_sign)

    def _ask_for_a_sign(self) -> None:
        if not self._transport.clear_to_send.is_set():
            return  # keys are being exchanged, which is a sign too
        request = paramiko.Message()
        request.add_byte(bytes([80]))  # SSH_MSG_GLOBAL_REQUEST
        request.add_string("keepalive@openssh.com")
        request.add_boolean(True)  # paramiko's own keepalive wants no answer, so it notices nothing
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self._transport._send_message(request)

    @property
    def alive(self) -> bool:
        """Whether it stands, as far as can be told without asking."""
        return bool(self._transport.is_active())

    def start(self, timeout: float) -> ChannelProcess:
        """Start a `/bin/sh` that reads its input."""
        deadline = time.monotonic() + timeout
        try:
            channel = self._transport.open_session(
                window_size=_WINDOW, max_packet_size=_PACKET, timeout=timeout
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
            if self._transport.is_active() and time.monotonic() < deadline:
                message = "the server refuses to run commands (a `ForceCommand`, or sftp only?)"
                raise TransportError(self._host, "protocol", message) from error
            raise Broken from error
        finally:
            watchdog.cancel()
        return ChannelProcess(channel)

    def close(self) -> None:
        """End it and everything on it, quickly."""
        self._transport.close()
        for below in reversed(self._below):
            below.close()


class _Proxy:
    """A `ProxyCommand` at work; its socket is what the connection runs over."""

    def __init__(self, command: str) -> None:
        ours, its = socket.socketpair()
        self.socket = ours
        with its:
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=its.fileno(),
                stdout=its.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        self.socket.close()
        self._child.terminate()
        try:
            self._child.wait(2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def open_connection(host: str, destination: str, timeout: float) -> ParamikoConnection:
    """Connect to what `ssh DESTINATION` connects to, by the user's own settings."""
    settings = read_settings(host, destination)
    return connect_with(host, settings, timeout)


def connect_with(
    host: str, settings: Settings, timeout: float, depth: int = 0
) -> ParamikoConnection:
    """Connect by given settings, through jumps where there are some."""
    if settings.only_openssh:
        raise Incapable(f"{settings.only_openssh} is set")
    if depth > _MOST_JUMPS:
        raise TransportError(host, "unreachable", "its jump hosts lead through one another")
    deadline = time.monotonic() + min(timeout, settings.connect_timeout or timeout)
    below: list[Any] = []
    try:
        plain = _socket(host, settings, deadline, below, depth)
        transport = _handshaken(host, settings, plain, deadline)
        below.insert(0, plain) if not below else None
        try:
            _check_key(host, settings, transport)
            _authenticate(host, settings, transport, deadline)
            return ParamikoConnection(host, transport, below, settings)
        except BaseException:
            transport.close()
            raise
    except BaseException:
        for each in reversed(below):
            each.close()
        raise


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _socket(host: str, settings: Settings, deadline: float, below: list[Any], depth: int) -> Any:
    """Return what the connection runs over: a socket, a proxy's, or a channel through a jump."""
    if settings.proxy_jump:
        first, _, last = settings.proxy_jump.rpartition(",")
        jump = parse_jump(last)
        if jump is None:
            message = f"its ProxyJump '{settings.proxy_jump}' cannot be read"
            raise TransportError(host, "unreachable", message)
        name, user, port = jump
        through = read_settings(host, name, user=user, port=port)
        if first:
            through = replace(through, proxy_jump=first, proxy_command=None)
        try:
            connection = connect_with(host, through, _left(deadline), depth + 1)
        except TransportError as error:
            text = str(error).removeprefix(f"host '{host}': ")
            message = f"through the jump host '{name}': {text}"
            raise TransportError(host, error.kind, message) from error
        below.append(connection)
        try:
            return connection._transport.open_channel(
                "direct-tcpip",
                (settings.hostname, settings.port),
                ("127.0.0.1", 0),
                window_size=_WINDOW,
                max_packet_size=_PACKET,
                timeout=_left(deadline),
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            message = (
                f"the jump host '{name}' does not reach {settings.hostname}, "
                f"port {settings.port}: {_reason(error)}"
            )
            raise TransportError(host, "unreachable", message) from error
    if settings.proxy_command:
        tokens = {"h": settings.hostname, "n": settings.alias, "p": str(settings.port)}
        proxy = _Proxy(with_tokens(settings.proxy_command, {**tokens, "r": settings.user}))
        below.append(proxy)
        return proxy.socket
    try:
        source = (settings.bind_address, 0) if settings.bind_address else None
        plain = socket.create_connection(
            (settings.hostname, settings.port), _left(deadline), source_address=source
        )
    except OSError as error:
        where = f"{settings.hostname}, port {settings.port}"
        message = f"cannot be reached at {where}: {_reason(error)}"
        raise TransportError(host, "unreachable", message) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return plain


def _handshaken(host: str, settings: Settings, plain: Any, deadline: float) -> paramiko.Transport:
    try:
        heard: Any = _Heard(plain)
        transport = paramiko.Transport(heard)
    except (paramiko.SSHException, OSError) as error:
        plain.close()
        raise TransportError(host, "unreachable", _reason(error)) from error
    transport.daemon = True
    transport.set_log_channel("theseus.dispatch.paramiko")
    transport.banner_timeout = transport.handshake_timeout = _left(deadline)
    options = transport.get_security_options()
    wanted = [kind for kind in known_hosts.preferred_kinds(settings) if kind in options.key_types]
    options.key_types = [*wanted, *(kind for kind in options.key_types if kind not in wanted)]
    options.ciphers = sorted(options.ciphers, key=lambda cipher: "gcm" not in cipher)
    try:
        transport.start_client(timeout=_left(deadline))
        if not transport.initial_kex_done:  # its way to say that the time is over
            raise TimeoutError
    except paramiko.ssh_exception.IncompatiblePeer as error:
        transport.close()
        raise Incapable(_reason(error)) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        kind: Kind = "timeout" if time.monotonic() >= deadline else "unreachable"
        where = f"{settings.hostname}, port {settings.port}"
        message = f"something at {where} answers, but not as an SSH server: {_reason(error)}"
        raise TransportError(host, kind, message) from error
    return transport


def _check_key(host: str, settings: Settings, transport: paramiko.Transport) -> None:
    key = transport.get_remote_server_key()
    verdict = known_hosts.judge(settings, key.get_name(), key.asbytes())
    if verdict.trusted:
        return
    if verdict.new and known_hosts.needs_authority(settings):
        raise Incapable("its host key is certified by an authority")
    # What the user's own configuration allows is allowed, but never a key that has changed.
    if verdict.new and settings.strict in {"accept-new", "no", "off", "false"}:
        with contextlib.suppress(OSError):
            known_hosts.remember(settings, key.get_name(), key.asbytes())
        return
    raise TransportError(host, "host_key", verdict.problem)


def _authenticate(
    host: str, settings: Settings, transport: paramiko.Transport, deadline: float
) -> None:
    user = settings.user or os.environ.get("USER", "")
    transport.auth_timeout = max(30.0, _left(deadline))  # an agent may ask for a touch
    accepted: list[str] = []
    try:
        transport.auth_none(user)
        return
    except paramiko.BadAuthenticationType as error:
        accepted = list(error.allowed_types)
    except (paramiko.SSHException, EOFError) as error:
        if not transport.is_active():
            raise TransportError(host, "unreachable", _reason(error)) from error
    notes: list[str] = []
    if "publickey" in accepted and settings.public_key:
        offered = identities(settings)
        notes = offered.notes
        try:
            for key in offered.keys:
                try:
                    further = transport.auth_publickey(user, key)
                except paramiko.SSHException as error:
                    if not transport.is_active():
                        notes.append(f"it closed the connection: {_reason(error)}")
                        break
                    continue
                except EOFError:
                    notes.append("it closed the connection after so many keys")
                    break
                if not further:
                    return
                raise Incapable(f"a second factor is asked for: {', '.join(further)}")
        finally:
            offered.close()
        notes.insert(0, f"{len(offered.keys)} key(s) were offered and refused")
    methods = ", ".join(accepted) or "nothing"
    raise Incapable(f"for the user '{user}' it accepts {methods}; {'; '.join(notes) or 'no keys'}")


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
