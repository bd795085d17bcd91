"""Making a connection by paramiko: the way there, the host's key, who the user is."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from dataclasses import replace
from typing import Any

import paramiko

from theseus.dispatch.transport import known_hosts
from theseus.dispatch.transport.base import Kind, TransportError
from theseus.dispatch.transport.identities import identities
from theseus.dispatch.transport.paramiko_ import LOGGER, PACKET, WINDOW, Heard, ParamikoConnection
from theseus.dispatch.transport.ssh_config import Settings, parse_jump, read_settings, with_tokens

_MOST_JUMPS = 8


class Incapable(Exception):
    """What the host wants is beyond paramiko; OpenSSH may be able to."""


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
            return connection.transport.open_channel(
                "direct-tcpip",
                (settings.hostname, settings.port),
                ("127.0.0.1", 0),
                window_size=WINDOW,
                max_packet_size=PACKET,
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
        heard: Any = Heard(plain)
        transport = paramiko.Transport(heard)
    except (paramiko.SSHException, OSError) as error:
        plain.close()
        raise TransportError(host, "unreachable", _reason(error)) from error
    transport.daemon = True
    transport.set_log_channel(LOGGER)
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
