"""The user's own SSH configuration of one host, as `ssh -G` reports it.

OpenSSH itself is the only program that reads its configuration right (`Include`, every `Match`,
tokens, defaults of the distribution). Without it, `ssh_config_reader` does what it can.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from theseus.dispatch.transport.base import TransportError

CONFIG_VARIABLE = "THESEUS_SSH_CONFIG"  # a configuration file in place of the user's, as `ssh -F`
_TIMEOUT = 20.0  # `Match exec` may run something

_YES = {"yes", "true"}


@dataclass(frozen=True)
class Settings:
    """What one host's connection is made with; paths are absolute."""

    alias: str  # what the user calls it, as given to `ssh`
    hostname: str
    port: int = 22
    user: str = ""
    identity_files: tuple[Path, ...] = ()
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None  # None: $SSH_AUTH_SOCK; "none": no agent
    proxy_jump: str | None = None
    proxy_command: str | None = None
    known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    strict: str = "ask"  # StrictHostKeyChecking, the user's own
    hash_known_hosts: bool = False
    connect_timeout: float | None = None
    alive_interval: float = 0.0
    alive_count: int = 3
    control_path: str | None = None
    bind_address: str | None = None
    public_key: bool = True
    only_openssh: str | None = None  # why paramiko must not even try

    @property
    def key_name(self) -> str:
        """The name under which the host's key is known."""
        name = (self.host_key_alias or self.hostname).lower()
        return name if self.port == 22 or self.host_key_alias else f"[{name}]:{self.port}"


def ssh_program() -> str | None:
    """Return the `ssh` program, if there is one."""
    return shutil.which("ssh")


def config_file() -> Path | None:
    """Return the configuration file that stands in for the user's, if one was named."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named).expanduser() if named else None


def file_options() -> list[str]:
    """Return the options that give `ssh` the same configuration that is read here."""
    path = config_file()
    return ["-F", str(path)] if path else []


def home() -> Path:
    """Return the user's home folder as `ssh` sees it: the account's, whatever `$HOME` says."""
    try:
        import pwd
    except ImportError:  # Windows
        return Path.home()
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def checked_destination(host: str, destination: str) -> str:
    """Return what `ssh` is called with, refused when `ssh` would take it for an option."""
    if not destination or destination.startswith("-") or re.search(r"[\s\0]", destination):
        message = f"`ssh: {destination}` is not something that ssh can connect to"
        raise TransportError(host, "unreachable", message)
    return destination


def read_settings(
    host: str, destination: str, *, user: str | None = None, port: int | None = None
) -> Settings:
    """Return the settings with which `ssh DESTINATION` connects.

    Parameters
    ----------
    host
        The host's name in the inventory, for messages.
    destination
        An alias, a name, `user@name` or `ssh://user@name:port`.
    user, port
        Given beside it, as a jump's specification does.
    """
    checked_destination(host, destination)
    program = ssh_program()
    if program is None:
        from theseus.dispatch.transport.ssh_config_reader import read_without_ssh

        return read_without_ssh(host, destination, user=user, port=port)
    command = [program, *file_options(), "-T", "-G"]
    if user:
        command += ["-l", user]
    if port:
        command += ["-p", str(port)]
    try:
        done = subprocess.run(
            [*command, "--", destination],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"`ssh -G {destination}` takes more than {_TIMEOUT:.0f} seconds (a `Match exec`?)"
        raise TransportError(host, "unreachable", message) from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        message = f"ssh cannot read its configuration: {said}"
        raise TransportError(host, "unreachable", message)
    return parse_settings(destination, done.stdout.decode("utf-8", "surrogateescape"))


def parse_settings(alias: str, text: str) -> Settings:
    """Return the settings in what `ssh -G ALIAS` printed; words that are not known are left out."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key.lower(), []).append(value.strip())

    def one(key: str) -> str | None:
        value = found.get(key, [""])[0]
        return None if value.lower() in {"", "none"} else value

    def number(key: str) -> float | None:
        value = one(key)
        return float(value) if value and re.fullmatch(r"\d+", value) else None

    tokens = {
        "h": one("hostname") or alias,
        "n": alias,
        "p": one("port") or "22",
        "r": one("user") or "",
    }

    def files(key: str) -> tuple[Path, ...]:
        values = [value for value in found.get(key, []) if value and value.lower() != "none"]
        return tuple(expanded(with_tokens(value, tokens)) for value in values)

    def names(key: str) -> tuple[Path, ...]:
        value = one(key)
        # Several paths in one line, unquoted: a new one begins where a path can begin.
        return tuple(expanded(name) for name in re.split(r"\s+(?=[/~])", value)) if value else ()

    settings = Settings(
        alias=alias,
        hostname=one("hostname") or alias,
        port=int(number("port") or 22),
        user=one("user") or "",
        identity_files=files("identityfile"),
        certificate_files=files("certificatefile"),
        identities_only=(one("identitiesonly") or "no") in _YES,
        identity_agent=_agent(found.get("identityagent", [""])[0]),
        proxy_jump=one("proxyjump"),
        proxy_command=one("proxycommand"),
        known_hosts=names("userknownhostsfile"),
        global_known_hosts=names("globalknownhostsfile"),
        host_key_alias=one("hostkeyalias"),
        strict=(one("stricthostkeychecking") or "ask").lower(),
        hash_known_hosts=(one("hashknownhosts") or "no") in _YES,
        connect_timeout=number("connecttimeout"),
        alive_interval=number("serveraliveinterval") or 0.0,
        alive_count=int(number("serveralivecountmax") or 3),
        control_path=one("controlpath"),
        bind_address=one("bindaddress"),
        public_key=(one("pubkeyauthentication") or "yes") != "no",
    )
    return replace(settings, only_openssh=_beyond_paramiko(one))


def _beyond_paramiko(one: Callable[[str], str | None]) -> str | None:
    """Return the setting that only OpenSSH can follow, if there is one."""
    if one("proxyusefdpass") in _YES:
        return "ProxyUseFdpass"
    for key, name in (
        ("knownhostscommand", "KnownHostsCommand"),
        ("pkcs11provider", "PKCS11Provider"),
        ("revokedhostkeys", "RevokedHostKeys"),
    ):
        if one(key):
            return name
    if (one("verifyhostkeydns") or "no") in {"yes", "true"}:
        return "VerifyHostKeyDNS"
    return None


def _agent(value: str) -> str | None:
    """Return the agent's socket; None for the one that the environment names."""
    if not value or value == "SSH_AUTH_SOCK":
        return None
    if value.lower() == "none":
        return "none"
    if value.startswith("$"):
        return os.environ.get(value.strip("${}"), "none")
    return str(expanded(value))


def with_tokens(text: str, tokens: Mapping[str, str]) -> str:
    """Return text with `%h` and its like replaced; those of this machine need not be given."""
    known = {"%": "%", "d": str(home()), "u": getpass.getuser(), "i": str(os.getuid()), **tokens}
    return re.sub(r"%(.)", lambda found: known.get(found[1], found[0]), text)


def expanded(path: str) -> Path:
    """Return a path of the configuration as an absolute one."""
    path = path.strip('"')
    if path == "~" or path.startswith("~/"):
        return home() / path[2:]
    return Path(path)


_JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:@]+)(?::(?P<port>\d+))?/?"
)


def parse_jump(jump: str) -> tuple[str, str | None, int | None] | None:
    """Return the name, user and port of one jump; None when it cannot be read."""
    match = _JUMP.fullmatch(jump.strip())
    if match is None:
        return None
    name = match["host"].strip("[]")
    return name, match["user"], int(match["port"]) if match["port"] else None
