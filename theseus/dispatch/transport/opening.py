"""Which way a host is reached."""

from __future__ import annotations

from theseus.dispatch.transport.base import HostLike, TransportError
from theseus.dispatch.transport.local import LocalConnection
from theseus.dispatch.transport.shell import Connection, Opener
from theseus.dispatch.transport.ssh_config import checked_destination, ssh_program


def opener_for(host: HostLike) -> Opener:
    """Return what opens a connection to a host, by its `transport:` and the user's settings."""
    if host.ssh is None or host.transport == "local":
        return LocalConnection
    name, destination = host.name, checked_destination(host.name, host.ssh)
    if host.transport == "openssh":
        return lambda timeout: _openssh(name, destination, timeout)
    if host.transport == "paramiko":
        return lambda timeout: _paramiko(name, destination, timeout)
    return lambda timeout: _either(name, destination, timeout)


def _openssh(name: str, destination: str, timeout: float) -> Connection:
    from theseus.dispatch.transport import openssh

    return openssh.open_connection(name, destination, timeout)


def _paramiko(name: str, destination: str, timeout: float) -> Connection:
    from theseus.dispatch.transport import paramiko_opening

    try:
        return paramiko_opening.open_connection(name, destination, timeout)
    except paramiko_opening.Incapable as error:
        message = (
            f"authentication failed: {error}. If `ssh {destination}` works in a terminal, write "
            f"`transport: openssh` for this host"
        )
        raise TransportError(name, "authentication", message) from error


def _either(name: str, destination: str, timeout: float) -> Connection:
    """Connect by paramiko, or by the `ssh` program where more is wanted than paramiko has."""
    from theseus.dispatch.transport import paramiko_opening

    try:
        return paramiko_opening.open_connection(name, destination, timeout)
    except paramiko_opening.Incapable as error:
        if ssh_program() is None:
            message = f"authentication failed: {error}"
            raise TransportError(name, "authentication", message) from error
        try:
            return _openssh(name, destination, timeout)
        except TransportError as second:
            if second.kind != "authentication":
                raise
            text = str(second).removeprefix(f"host '{name}': ")
            message = f"{text}. (Without the ssh program: {error})"
            raise TransportError(name, "authentication", message) from second
