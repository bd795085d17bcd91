"""Known host keys: who says that a host is the one it should be."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from theseus.dispatch.transport.framing import quoted
from theseus.dispatch.transport.ssh_config import Settings, file_options, ssh_program


@dataclass(frozen=True)
class Entry:
    """One line of a known hosts file that names the host."""

    marker: str  # "", "@cert-authority" or "@revoked"
    kind: str
    key: bytes
    path: Path
    line: int


def entries(name: str, paths: Iterable[Path]) -> Iterator[Entry]:
    """Yield the lines that name the host `name` (`host`, or `[host]:port`)."""
    for path in paths:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) < 3 or words[0].startswith("#") or not _names(words[0], name):
                continue
            try:
                key = base64.b64decode(words[2], validate=True)
            except (binascii.Error, ValueError):
                continue
            yield Entry(marker, words[1], key, path, number)


def _names(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        try:
            _, _, salt, digest = patterns.split("|")
            expected = base64.b64decode(digest)
            got = hmac.digest(base64.b64decode(salt), name.encode(), "sha1")
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(got, expected)
    matched = False
    for pattern in patterns.lower().split(","):
        # `[` is a letter here, not the beginning of a set.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, glob):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a key as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class Verdict:
    """Whether a host's key is its own.

    Attributes
    ----------
    trusted
        It is known.
    problem
        What to tell the user otherwise.
    new
        There was no key of the host at all.
    """

    trusted: bool
    problem: str = ""
    new: bool = False


def judge(settings: Settings, kind: str, key: bytes) -> Verdict:
    """Compare the key that a host has shown with those that are known."""
    paths = (*settings.known_hosts, *settings.global_known_hosts)
    found = list(entries(settings.key_name, paths))
    revoked = [entry for entry in found if entry.marker == "@revoked" and entry.key == key]
    if revoked:
        where = f"'{revoked[0].path}', line {revoked[0].line}"
        text = f"its key {fingerprint(key)} is marked as revoked in {where}; do not connect"
        return Verdict(trusted=False, problem=text)
    known = [entry for entry in found if not entry.marker]
    if any(entry.key == key for entry in known):
        return Verdict(trusted=True)
    shown = f"{_short(kind)} {fingerprint(key)}"
    login = shown_command("ssh", *file_options(), settings.alias)
    if not known:
        text = (
            f"its host key is not known: {shown}. Compare that with what the host's administrator "
            f"says; if it is the same, accept it in a terminal, once: {_accept(settings, kind, key, login)}"
        )
        return Verdict(trusted=False, problem=text, new=True)
    entry = next((entry for entry in known if entry.kind == kind), known[0])
    forget = shown_command("ssh-keygen", "-R", settings.key_name, "-f", str(entry.path))
    text = (
        f"its host key has CHANGED: it shows {shown}, and '{entry.path}', line {entry.line}, "
        f"knows {_short(entry.kind)} {fingerprint(entry.key)}. Somebody may be listening in, or the "
        f"host was installed anew: ask its administrator. Only if it was: {forget} && {login}"
    )
    return Verdict(trusted=False, problem=text)


def _accept(settings: Settings, kind: str, key: bytes, login: str) -> str:
    if ssh_program() is not None:
        return login
    path = settings.known_hosts[0] if settings.known_hosts else Path("~/.ssh/known_hosts")
    line = f"{settings.key_name} {kind} {base64.b64encode(key).decode()}"
    return f"echo {quoted(line)} >> {quoted(str(path))}"


def _short(kind: str) -> str:
    return kind.removeprefix("ssh-").split("-")[0].upper()


def shown_command(*words: str) -> str:
    """Return a command as the user can paste it into a terminal."""
    return f"`{quoted(*words)}`"


def remember(settings: Settings, kind: str, key: bytes) -> None:
    """Add a new host's key to the user's known hosts, as `ssh` does when told to accept new ones."""
    if not settings.known_hosts:
        return
    path = settings.known_hosts[0]
    name = settings.key_name
    if settings.hash_known_hosts:
        salt = secrets.token_bytes(20)
        digest = hmac.digest(salt, name.encode(), "sha1")
        name = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    line = f"{name} {kind} {base64.b64encode(key).decode()}\n"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(number, "ab") as file:
        file.write(line.encode())


def preferred_kinds(settings: Settings) -> list[str]:
    """Return the kinds of key that are known of a host, so that it shows one that can be checked."""
    paths = (*settings.known_hosts, *settings.global_known_hosts)
    kinds: list[str] = []
    for entry in entries(settings.key_name, paths):
        if not entry.marker:
            # An RSA key is one key; these are ways to sign with it.
            rsa = ["rsa-sha2-512", "rsa-sha2-256"]
            kinds += rsa if entry.kind == "ssh-rsa" else [entry.kind]
    return list(dict.fromkeys(kinds))


def needs_authority(settings: Settings) -> bool:
    """Return whether the host is known by a certificate authority, which paramiko cannot check."""
    paths = (*settings.known_hosts, *settings.global_known_hosts)
    return any(entry.marker == "@cert-authority" for entry in entries(settings.key_name, paths))
