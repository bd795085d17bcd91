"""A real SSH server on loopback, with keys of its own, for tests; and a bad line to it.

`SshServer` is one sshd. `SshWorld` is what a user has: a configuration, keys, known hosts, a jump
host, and (as root) accounts with every login shell. Nothing outside a temporary folder is touched,
except that accounts are added and removed again.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil
import pytest

from theseus.dispatch import transport

SSHD = Path("/usr/sbin/sshd")
SHELLS = {
    "bash": "/bin/bash",
    "dash": "/bin/dash",
    "fish": "/usr/bin/fish",
    "tcsh": "/usr/bin/tcsh",
    "zsh": "/usr/bin/zsh",
}
OPTIONAL_SHELLS = {"zsh"}  # it speaks bash's language here: welcome, not needed


def missing(what: str) -> None:
    """Skip the test for want of a program; in CI, that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is not installed (Debian: openssh-server openssh-client fish tcsh)")
    pytest.skip(f"{what} is not installed")


def account_with(shell: str, accounts: Mapping[str, str]) -> str:
    """Return the account with this login shell, or skip; as root and in CI it must be there."""
    if shell not in accounts:
        if os.environ.get("CI") == "true" and os.geteuid() == 0 and shell not in OPTIONAL_SHELLS:
            pytest.fail(f"no account with {shell}")
        pytest.skip("accounts with other login shells can only be made as root")
    return accounts[shell]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def keygen(path: Path, *options: str) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run([*command, *options], check=True, stdin=subprocess.DEVNULL)
    return path


class SshServer:
    """One sshd in the foreground, on a port of its own."""

    def __init__(
        self, folder: Path, name: str, authorized: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.name, self.port = folder, name, free_port()
        self.host_key = keygen(folder / f"{name}_host_key")
        self.log = folder / f"{name}.log"
        self._config = folder / f"{name}.conf"
        lines = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "HostKey": str(self.host_key),
            "PidFile": "none",
            "AuthorizedKeysFile": str(authorized),
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UsePAM": "no",
            "PermitRootLogin": "prohibit-password",
            "StrictModes": "no",
            "MaxStartups": "100",
            "Subsystem": "sftp internal-sftp",
            "LogLevel": "VERBOSE",
            **(settings or {}),
        }
        # bash reads .bashrc for a command over SSH, unless it believes to be inside another shell:
        # the start-up files of whoever runs the tests are no business of theirs.
        own = f"Match User {getpass.getuser()}\n  SetEnv SHLVL=1\n"
        self._config.write_text("".join(f"{key} {value}\n" for key, value in lines.items()) + own)
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists
        command = [str(SSHD), "-D", "-f", str(self._config), "-E", str(self.log)]
        self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), 1),
            ):
                return
            if self._server.poll() is not None:
                break
            time.sleep(0.02)
        pytest.fail(f"sshd did not start: {self.log.read_text()}")

    def children(self) -> list[psutil.Process]:
        """Return the processes of the connections that it serves."""
        assert self._server is not None
        return psutil.Process(self._server.pid).children(recursive=True)

    def cut(self) -> None:
        """Kill what serves the connections, as a crash would; new ones are welcome."""
        for process in self.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() == "sshd":
                    process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        children = psutil.Process(server.pid).children(recursive=True)
        server.terminate()
        server.wait(10)
        for process in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    @property
    def known_line(self) -> str:
        kind, key = self.host_key.with_name(f"{self.host_key.name}.pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"


@dataclass(frozen=True)
class Host:
    """As much of an inventory's host as a transport looks at."""

    name: str
    ssh: str | None
    transport: Literal["auto", "paramiko", "openssh", "local"] = "paramiko"


@dataclass
class SshWorld:
    """A user's side and the servers: `config` is what `ssh -F` reads."""

    folder: Path
    server: SshServer
    jump: SshServer
    accounts: dict[str, str] = field(default_factory=dict)  # shell → user name

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def key(self) -> Path:
        return self.folder / "user_key"

    def write(self, extra: str = "") -> None:
        """Write the configuration and the known hosts anew, `extra` first so that it wins."""
        accounts = "".join(
            f"Host {shell}\n  HostName 127.0.0.1\n  Port {self.server.port}\n  User {user}\n"
            for shell, user in self.accounts.items()
        )
        self.config.write_text(
            f"{extra}\n"
            f"Host box\n  HostName 127.0.0.1\n  Port {self.server.port}\n"
            f"Host jump\n  HostName 127.0.0.1\n  Port {self.jump.port}\n"
            f"Host inner\n  HostName 127.0.0.1\n  Port {self.server.port}\n  ProxyJump jump\n"
            f"{accounts}"
            "Host *\n"
            f"  User {getpass.getuser()}\n"
            f"  IdentityFile {self.key}\n"
            f"  UserKnownHostsFile {self.known_hosts}\n"
            "  GlobalKnownHostsFile none\n"
            "  ConnectTimeout 10\n"
        )
        self.known_hosts.write_text(self.server.known_line + self.jump.known_line)


@contextlib.contextmanager
def accounts() -> Iterator[dict[str, str]]:
    """Add an account for each login shell, named for this process; remove them in the end."""
    made: dict[str, str] = {}
    if os.geteuid() != 0:
        yield made
        return
    homes = Path(tempfile.mkdtemp(prefix="theseus-homes-"))
    homes.chmod(0o755)
    try:
        for shell, path in SHELLS.items():
            if not Path(path).exists():
                if os.environ.get("CI") == "true" and shell not in OPTIONAL_SHELLS:
                    pytest.fail(f"the login shell {path} is not installed (Debian: fish tcsh)")
                continue
            user = f"theseus-{shell}-{os.getpid()}"
            _account("useradd", "--no-log-init", "--create-home", "--home-dir", str(homes / shell),
                     "--password", "*", "--shell", path, user)  # fmt: skip
            made[shell] = user
        yield made
    finally:
        for user in made.values():
            _account("userdel", "--force", user)
        shutil.rmtree(homes, ignore_errors=True)


def _account(*command: str) -> None:
    for _ in range(50):  # another test process may hold the lock of /etc/passwd
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if "lock" not in done.stderr:
            break
        time.sleep(0.1)
    pytest.fail(f"{' '.join(command)}: {done.stderr}")


@contextlib.contextmanager
def ssh_world() -> Iterator[SshWorld]:
    """Start a server and a jump host, with a user's configuration for them."""
    if not SSHD.exists() or not shutil.which("ssh"):
        missing("sshd or ssh")
    folder = Path(tempfile.mkdtemp(prefix="theseus-sshd-"))
    folder.chmod(0o755)  # the accounts must be able to read which keys are theirs
    key = keygen(folder / "user_key")
    authorized = folder / "authorized_keys"
    authorized.write_text(key.with_name("user_key.pub").read_text())
    authority = keygen(folder / "user_authority")
    trusted = {"TrustedUserCAKeys": str(authority.with_name("user_authority.pub"))}
    servers = [SshServer(folder, name, authorized, trusted) for name in ("server", "jump")]
    try:
        for server in servers:
            server.start()
        with accounts() as made:
            world = SshWorld(folder, *servers, accounts=made)
            world.write()
            try:
                yield world
            finally:
                for server in servers:
                    server.stop()  # before the accounts go, in which its sessions run
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ssh_servers() -> Iterator[SshWorld]:
    with ssh_world() as world:
        yield world


@pytest.fixture
def ssh(ssh_servers: SshWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshWorld]:
    """Return a user who can `ssh box`, `ssh inner` (through `jump`) and `ssh fish`, `ssh tcsh` …"""
    monkeypatch.setenv("THESEUS_SSH_CONFIG", str(ssh_servers.config))
    runtime = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))  # sockets' names must be short
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    ssh_servers.write()
    yield ssh_servers
    transport.close_all()
    shutil.rmtree(runtime, ignore_errors=True)


class BadLine:
    """A line to a server that can stall, be cut, and be counted."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._flowing = threading.Event()
        self._flowing.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.connections = 0
        self._room: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Carry nothing more, and say nothing."""
        self._flowing.clear()

    def flow(self) -> None:
        """Carry again."""
        self._flowing.set()

    def cut(self) -> None:
        """Close all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def cut_after(self, size: int) -> None:
        """Close all connections, once, when so many more bytes were carried."""
        self._room = size

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flow()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            self.connections += 1
            with self._lock:
                self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._flowing.wait()
                data = source.recv(1 << 16)
                self._flowing.wait()
                if not data:
                    break
                if self._room is not None:
                    self._room -= len(data)
                    if self._room < 0:
                        self._room = None
                        self.cut()
                        return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def bad_line(ssh: SshWorld) -> Iterator[BadLine]:
    """Return a line to the server; `ssh bad` goes over it, and notices silence within seconds."""
    line = BadLine(ssh.server.port)
    ssh.write(
        f"Host bad\n  HostName 127.0.0.1\n  Port {line.port}\n"
        f"  HostKeyAlias [127.0.0.1]:{ssh.server.port}\n"
        "  ServerAliveInterval 1\n  ServerAliveCountMax 1\n"
    )
    yield line
    transport.close_all()
    line.close()
