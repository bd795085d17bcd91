"""Reaching a host: a shell and files, over one connection that is kept and shared.

`connect(host)` gives the transport of a host of the inventory: `run` a program, `stream` what one
writes, `put` and `get` files. How the host is reached follows the user's own SSH configuration.
"""

from __future__ import annotations

import atexit
import os
import threading

from theseus.dispatch.transport.base import (
    Answer,
    ByteStream,
    HostLike,
    Progress,
    RemoteFileError,
    Transport,
    TransportError,
)
from theseus.dispatch.transport.framing import quoted
from theseus.dispatch.transport.opening import opener_for
from theseus.dispatch.transport.shell import Shell

__all__ = [
    "Answer",
    "ByteStream",
    "Progress",
    "RemoteFileError",
    "Transport",
    "TransportError",
    "close_all",
    "connect",
    "quoted",
]

_lock = threading.Lock()
_transports: dict[tuple[str, str | None, str], Shell] = {}


def connect(host: HostLike) -> Transport:
    """Return the transport of a host: the same one for everybody in this process.

    Nothing is opened before it is used. After a loss, the next use opens the connection again.
    """
    key = (host.name, host.ssh, host.transport)
    with _lock:
        transport = _transports.get(key)
        if transport is None:
            transport = _transports[key] = Shell(host.name, opener_for(host))
        return transport


def close_all() -> None:
    """Close every connection of this process; at its end, that happens by itself."""
    with _lock:
        transports = list(_transports.values())
        _transports.clear()
    for transport in transports:
        transport.close()


def _forget() -> None:
    """Begin anew in a forked process: the connections are its parent's, and so are the locks."""
    global _lock, _transports
    _lock = threading.Lock()
    _transports = {}


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
