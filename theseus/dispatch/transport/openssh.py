"""SSH by the `ssh` program, for what only it can do: Kerberos, security keys, second factors.

One master connection carries everything else. It is, in this order: one that the user's own
configuration already keeps, one that the user opened for us in a terminal (`login_command`), or one
of our own, which ends with this process. Nothing here ever asks for a password or a code: a
background thread has nobody to ask.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import subprocess
import tempfile
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

from theseus.dispatch.transport.base import Kind, TransportError
from theseus.dispatch.transport.framing import COMMAND, quoted
from theseus.dispatch.transport.process import NOT_STARTED, ChildProcess
from theseus.dispatch.transport.shell import Broken, NoRoom
from theseus.dispatch.transport.ssh_config import (
    Settings,
    checked_destination,
    file_options,
    home,
    read_settings,
    ssh_program,
)

# A socket's name may have 104 bytes on some systems, and `ssh` adds 17 of its own while it binds.
_LONGEST_SOCKET = 104 - 17
_KEPT_HOURS = 8
_MOST_PROGRAMS = 8  # at once; a server's MaxSessions is 10 unless somebody has changed it
_ALIVE = ("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=2")


class MuxProcess(ChildProcess):
    """A remote shell through the master connection."""

    def lost(self) -> bool:
        """Return whether it was the connection that ended: `ssh` then says 255."""
        return self._ended(2.0) and self._child.returncode == 255


@dataclass(frozen=True)
class _Master:
    """A master connection and, when it is ours, its process."""

    socket: Path
    process: subprocess.Popen[bytes] | None = None


class OpensshConnection:
    """A master connection that carries everything for one host."""

    def __init__(self, host: str, destination: str, master: _Master) -> None:
        self._host, self._destination, self._master = host, destination, master
        self._programs: weakref.WeakSet[MuxProcess] = weakref.WeakSet()
        self._counting = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether it stands, as far as can be told without asking."""
        process = self._master.process
        return (process is None or process.poll() is None) and self._master.socket.exists()

    def start(self, timeout: float) -> MuxProcess:
        """Start a `/bin/sh` that reads its input, on the master connection or not at all."""
        options = [
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            f"ControlPath={_literal(self._master.socket)}",
        ]
        # Without the master, `ssh` would connect anew by itself; with this it fails instead, and
        # says something by which we know that the program was not started.
        options += [
            "-o",
            "ControlMaster=no",
            "-o",
            f"ProxyCommand=echo {NOT_STARTED} >&2",
            "-o",
            "RemoteCommand=none",
        ]
        command = [*_ssh(self._host), *options, "--", self._destination, *COMMAND]
        if not self.alive:
            raise Broken
        with self._counting:
            if sum(1 for program in self._programs if program.running) >= _MOST_PROGRAMS:
                raise NoRoom
            process = MuxProcess(command)
            self._programs.add(process)
        return process

    def close(self) -> None:
        """End it, when it is ours."""
        process = self._master.process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(OSError):
            self._master.socket.unlink(missing_ok=True)


def open_connection(host: str, destination: str, timeout: float) -> OpensshConnection:
    """Find or open a master connection to what `ssh DESTINATION` connects to."""
    checked_destination(host, destination)
    settings = read_settings(host, destination)
    for path in (settings.control_path, shared_socket(settings)):
        if path and _answers(host, destination, Path(path)):
            return OpensshConnection(host, destination, _Master(Path(path)))
    return OpensshConnection(host, destination, _own_master(host, settings, timeout))


def login_command(settings: Settings) -> str:
    """Return what a user types in a terminal, once, to log in where a human must be asked."""
    options = [*file_options(), "-fN", "-o", "ControlMaster=yes"]
    options += ["-o", f"ControlPath={_literal(shared_socket(settings))}"]
    options += ["-o", f"ControlPersist={_KEPT_HOURS}h", settings.alias]
    return f"ssh {quoted(*options)}"


def shared_socket(settings: Settings) -> Path:
    """Return where the connection lies that the user opens in a terminal."""
    return socket_folder() / _short_name(settings)


def socket_folder() -> Path:
    """Return a short folder that nobody but this user can enter."""
    candidates = [home() / ".ssh/theseus"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        candidates.insert(0, Path(runtime) / "theseus-ssh")
    for folder in candidates:
        if len(os.fsencode(folder)) + 32 <= _LONGEST_SOCKET and _private(folder):
            return folder
    folder = Path("/tmp") / f"theseus-{os.getuid()}"  # noqa: S108 - checked to be ours alone
    return folder if _private(folder) else Path(tempfile.mkdtemp(prefix="th-", dir="/tmp"))


def _private(folder: Path) -> bool:
    """Make the folder; return whether it is a real one, ours, and closed to others."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    mode = stat.S_IMODE(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not mode & 0o077


def _short_name(settings: Settings) -> str:
    """Return a name for the connection's socket: what `%C` says, in half its length."""
    text = "\0".join(
        (
            settings.user,
            settings.hostname,
            str(settings.port),
            settings.proxy_jump or settings.proxy_command or "",
        )
    )
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _literal(path: Path) -> str:
    """Return a path as `ssh` takes it, without tokens."""
    return str(path).replace("%", "%%")


def _ssh(host: str) -> list[str]:
    program = ssh_program()
    if program is None:
        message = "`transport: openssh` needs the ssh program, which is not installed here"
        raise TransportError(host, "unreachable", message)
    return [program, *file_options()]


def _answers(host: str, destination: str, path: Path) -> bool:
    """Return whether a master connection listens at `path`."""
    if not path.exists():
        return False
    command = [*_ssh(host), "-o", f"ControlPath={_literal(path)}", "-O", "check", "--", destination]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _own_master(host: str, settings: Settings, timeout: float) -> _Master:
    path = socket_folder() / f"{_short_name(settings)}.{secrets.token_hex(4)}"
    options = [
        "-N",
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        "ControlMaster=yes",
        "-o",
        "ControlPersist=no",
    ]
    options += ["-o", f"ControlPath={_literal(path)}", "-o", "ExitOnForwardFailure=no"]
    options += [
        "-o",
        "ClearAllForwardings=yes",
        "-o",
        "PermitLocalCommand=no",
        "-o",
        "RemoteCommand=none",
    ]
    if settings.connect_timeout is None:
        options += ["-o", f"ConnectTimeout={max(1, int(timeout))}"]
    if not settings.alive_interval:
        options += _ALIVE
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*_ssh(host), *options, "--", settings.alias],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
        )
        deadline = time.monotonic() + timeout
        pause = 0.005
        while not path.exists():
            if process.poll() is not None:
                said.seek(0)
                raise _refused(host, settings, said.read().decode("utf-8", "replace"))
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                message = f"ssh did not connect within {timeout:.0f} seconds"
                raise TransportError(host, "timeout", message)
            time.sleep(pause)
            pause = min(0.05, pause * 1.5)
    return _Master(path, process)


_KINDS: tuple[tuple[str, Kind], ...] = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "host_key"),
    ("Host key verification failed", "host_key"),
    ("Permission denied", "authentication"),
    ("Too many authentication failures", "authentication"),
    ("No more authentication methods", "authentication"),
)


def _refused(host: str, settings: Settings, said: str) -> TransportError:
    """Return the error for what `ssh` said when it could not connect."""
    lines = [line.strip(" @\r") for line in said.splitlines()]
    text = "; ".join(dict.fromkeys(line for line in lines if line))[-1500:] or "nothing"
    kind: Kind = next((kind for words, kind in _KINDS if words in said), "unreachable")
    login = f"ssh {quoted(*file_options(), settings.alias)}"
    if kind == "authentication":
        message = (
            f"ssh says: {text}. If a password, a code or a touch is asked for, log in once in a "
            f"terminal: `{login_command(settings)}`; the connection is then used from here for "
            f"{_KEPT_HOURS} hours"
        )
    elif kind == "host_key" and "CHANGED" in said:
        forget = quoted("ssh-keygen", "-R", settings.key_name)
        message = f"ssh says: {text}. Only if the host was installed anew: `{forget} && {login}`"
    elif kind == "host_key":
        message = (
            f"its host key is not known; ssh says: {text}. Accept it in a terminal, once, after "
            f"comparing the fingerprint: `{login}`"
        )
    else:
        message = f"ssh says: {text}"
    return TransportError(host, kind, message)
