"""Who the user is to a host: keys of the agent, key files, certificates."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH

from theseus.dispatch.transport.framing import quoted
from theseus.dispatch.transport.ssh_config import Settings


@dataclass
class Identities:
    """The keys to offer, best first, and why others cannot be."""

    keys: list[paramiko.PKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    agent: Any = None

    def close(self) -> None:
        """Leave the agent."""
        if self.agent is not None:
            self.agent._close()


def identities(settings: Settings) -> Identities:
    """Return the keys in the order in which OpenSSH offers them.

    Keys of the agent that the configuration names too come first, then the others of the agent
    (unless the user's own configuration has `IdentitiesOnly`), then files.
    """
    found = Identities(agent=_agent(settings))
    in_agent = list(found.agent.get_keys()) if found.agent is not None else []
    public = {blob for path in settings.identity_files for blob in _public_blobs(path)}
    named = [key for key in in_agent if key.asbytes() in public]
    others = [] if settings.identities_only else [key for key in in_agent if key not in named]
    found.keys += [*named, *others]
    known = {key.asbytes() for key in in_agent}
    for path in settings.identity_files:
        if not path.is_file() or _public_blobs(path) & known:
            continue
        try:
            key = paramiko.PKey.from_path(path)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, others may do
            found.notes.append(_unusable(path, error))
        else:
            found.keys += [*_certified(path, settings), key]
    return found


def _unusable(path: Path, error: Exception) -> str:
    reason = str(error) or type(error).__name__
    # The class of this error depends on the format of the key file.
    if re.search("password|passphrase|encrypted", reason, re.IGNORECASE):
        command = f"ssh-add {quoted(str(path))}"
        return f"the key '{path}' has a passphrase: give it to your agent, once, with `{command}`"
    return f"the key '{path}' cannot be used ({reason})"


def _certified(path: Path, settings: Settings) -> Iterator[paramiko.PKey]:
    """Yield the key with each certificate that was made for it."""
    beside = path.with_name(f"{path.name}-cert.pub")
    for certificate in dict.fromkeys((*settings.certificate_files, beside)):
        if not certificate.is_file():
            continue
        key = paramiko.PKey.from_path(path)
        with contextlib.suppress(Exception):  # a certificate for another key
            key.load_certificate(str(certificate))
            yield key


def _public_blobs(path: Path) -> set[bytes]:
    """Return the public half of a key file, where it lies beside it."""
    import base64

    public = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
    try:
        return {base64.b64decode(public.read_text().split()[1])}
    except (OSError, ValueError, IndexError):
        return set()


def _agent(settings: Settings) -> Any:
    path = settings.identity_agent or os.environ.get("SSH_AUTH_SOCK")
    if not path or path == "none":
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(30.0)  # an agent may ask for a touch or a fingerprint
        connection.connect(path)
        agent: Any = AgentSSH()
        agent._connect(connection)
    except (OSError, paramiko.SSHException, ValueError):
        connection.close()
        return None
    return agent
