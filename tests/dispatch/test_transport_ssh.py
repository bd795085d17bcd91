"""What can stand between a user and a host: shells, jumps, keys, and lines that break."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.services.sshd import (
    SHELLS,
    BadLine,
    Host,
    SshServer,
    SshWorld,
    account_with,
    free_port,
    keygen,
)
from theseus.dispatch.transport import TransportError, close_all, connect
from theseus.dispatch.transport.openssh import login_command, shared_socket, socket_folder
from theseus.dispatch.transport.ssh_config import read_settings

BOTH = pytest.mark.parametrize("kind", ["paramiko", "openssh"])
PRINT_ALL = "for each; do printf '%s\\000' \"$each\"; done"


def account(ssh: SshWorld, shell: str) -> Host:
    """Return a host where the login shell is `shell`, or skip."""
    account_with(shell, ssh.accounts)
    return Host(shell, shell)


# Login shells


@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_runs_our_programs(ssh: SshWorld, shell: str) -> None:
    there = connect(account(ssh, shell))
    words = ["a b", "it's", "$(hostname -f)", "!!", "~", "*", "2>&1", "a\nb", "{x,y}", "é", "-l"]
    answer = there.run(f"printf err >&2; {PRINT_ALL}; cat; exit 3", *words, input=b"in\0put")
    assert answer.out == b"".join(word.encode() + b"\0" for word in words) + b"in\0put"
    assert (answer.status, answer.err) == (3, b"err")


@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_takes_files_and_resolves_paths(
    ssh: SshWorld, shell: str, tmp_path: Path
) -> None:
    there = connect(account(ssh, shell))
    home = Path(there.resolve("~"))
    there.put(b"content\0", "~/a folder/file")
    assert (home / "a folder/file").read_bytes() == b"content\0"
    there.get("~/a folder/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"content\0"
    assert not (home / "~").exists()


NOISE = {
    ".bashrc": "echo welcome; echo careful >&2; printf 'no end'\n",
    ".cshrc": "echo welcome; printf 'no end'\n",
    ".zshenv": "echo welcome; printf 'no end' >&2\n",
    ".config/fish/config.fish": "echo welcome; printf 'no end'\n",
}


@pytest.mark.parametrize("shell", ["bash", "tcsh", "zsh", "fish"])
@BOTH
def test_start_up_files_that_print_do_no_harm(ssh: SshWorld, shell: str, kind: str) -> None:
    host = account(ssh, shell)
    home = Path(f"~{ssh.accounts[shell]}").expanduser()
    with start_up(home, NOISE):
        there = connect(Host(f"{shell} {kind}", host.ssh, kind))  # type: ignore[arg-type]
        answer = there.run("echo out; echo err >&2; exit 2")
        assert (answer.status, answer.out, answer.err) == (2, b"out\n", b"err\n")
        there.put(b"x", "~/x")
        assert (home / "x").read_bytes() == b"x"
        assert b"".join(there.stream("echo one; echo two")) == b"one\ntwo\n"


SCRATCH = {
    ".profile": "echo hello; export SCRATCH='/scratch/my own'\n",
    ".login": "echo hello; setenv SCRATCH '/scratch/my own'\n",
    ".zprofile": "echo hello; export SCRATCH='/scratch/my own'\n",
    ".config/fish/config.fish": "status --is-login; and set -x SCRATCH '/scratch/my own'\n",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_variable_that_only_a_login_shell_sets_is_found(ssh: SshWorld, shell: str) -> None:
    host = account(ssh, shell)
    with start_up(Path(f"~{ssh.accounts[shell]}").expanduser(), SCRATCH):
        assert connect(host).resolve("$SCRATCH/runs") == "/scratch/my own/runs"


@contextlib.contextmanager
def start_up(home: Path, texts: dict[str, str]) -> Iterator[None]:
    before = {}
    for name, text in texts.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before[path] = path.read_bytes() if path.exists() else None
        path.write_text(text)
        path.chmod(0o644)
    try:
        yield
    finally:
        for path, content in before.items():
            path.unlink() if content is None else path.write_bytes(content)


def test_an_account_without_a_shell_is_no_empty_answer(ssh: SshWorld) -> None:
    host = account(ssh, "dash")
    subprocess.run(["usermod", "--shell", "/usr/sbin/nologin", ssh.accounts["dash"]], check=True)
    try:
        with pytest.raises(TransportError, match="not available") as caught:
            connect(Host("closed", host.ssh)).run("echo out")
        assert caught.value.kind == "protocol"
    finally:
        subprocess.run(["usermod", "--shell", "/bin/dash", ssh.accounts["dash"]], check=True)


# Ways to a host


@BOTH
def test_a_jump_host_is_gone_through(ssh: SshWorld, kind: str) -> None:
    assert connect(Host("inner", "inner", kind)).run("echo in").out == b"in\n"  # type: ignore[arg-type]
    assert f"port {ssh.jump.port}" in ssh.jump.log.read_text()


@BOTH
def test_several_jump_hosts_are_gone_through_in_order(ssh: SshWorld, kind: str) -> None:
    ssh.write(f"Host far\n  HostName 127.0.0.1\n  Port {ssh.server.port}\n  ProxyJump box,jump\n")
    assert connect(Host("far", "far", kind)).run("echo far").out == b"far\n"  # type: ignore[arg-type]


def test_jump_hosts_that_lead_in_a_circle_are_refused(ssh: SshWorld) -> None:
    ssh.write("Host one\n  ProxyJump two\nHost two\n  ProxyJump one\n")
    with pytest.raises(TransportError, match="through one another"):
        connect(Host("one", "one")).run("true")


def test_a_jump_host_that_fails_is_named(ssh: SshWorld) -> None:
    ssh.write(f"Host jump\n  Port {free_port()}\n")
    with pytest.raises(TransportError, match=r"through the jump host 'jump'.*refused") as caught:
        connect(Host("inner", "inner")).run("true")
    assert caught.value.kind == "unreachable"


@BOTH
def test_a_proxy_command_is_used(ssh: SshWorld, kind: str) -> None:
    proxy = f"ssh -F {ssh.config} -W %h:%p jump"
    ssh.write(
        f"Host proxied\n  HostName 127.0.0.1\n  Port {ssh.server.port}\n  ProxyCommand {proxy}\n"
    )
    assert connect(Host("proxied", "proxied", kind)).run("echo in").out == b"in\n"  # type: ignore[arg-type]
    close_all()
    left = [child.cmdline() for child in psutil.Process().children() if child.name() == "ssh"]
    assert left == []


@BOTH
def test_a_user_and_an_address_may_be_in_the_inventory(ssh: SshWorld, kind: str) -> None:
    there = Host("url", f"ssh://{getpass.getuser()}@127.0.0.1:{ssh.server.port}", kind)  # type: ignore[arg-type]
    assert connect(there).run("echo in").out == b"in\n"


@BOTH
def test_nobody_listens(ssh: SshWorld, kind: str) -> None:
    ssh.write(f"Host gone\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    with pytest.raises(TransportError, match="refused") as caught:
        connect(Host("gone", "gone", kind)).run("true")  # type: ignore[arg-type]
    assert (caught.value.kind, caught.value.host) == ("unreachable", "gone")


@pytest.mark.parametrize("destination", ["-oProxyCommand=touch /tmp/x", "", "a b", "a\nb"])
def test_what_ssh_would_take_for_an_option_is_refused(destination: str) -> None:
    with pytest.raises(TransportError, match="not something that ssh can connect to"):
        connect(Host("odd", destination))


def test_a_mistake_in_the_configuration_is_shown_as_ssh_says_it(ssh: SshWorld) -> None:
    ssh.write("Host box\n  NoSuchOption yes\n")
    with pytest.raises(TransportError, match=r"line 2.*(?i:bad configuration option)"):
        connect(Host("box", "box")).run("true")


# Host keys


def words_of_the_command(message: str, program: str) -> list[str]:
    """Return the command that a message gives, as a shell reads it."""
    return shlex.split(re.findall(rf"`({program} .*?)(?:`| &&)", message)[0])


def test_an_unknown_host_key_is_refused_with_its_fingerprint(ssh: SshWorld) -> None:
    ssh.known_hosts.write_text("")
    with pytest.raises(TransportError) as caught:
        connect(Host("box", "box")).run("true")
    assert caught.value.kind == "host_key"
    public = ssh.server.host_key.with_name(f"{ssh.server.host_key.name}.pub")
    shown = subprocess.run(["ssh-keygen", "-lf", str(public)], capture_output=True, check=True)
    assert shown.stdout.decode().split()[1] in str(caught.value)
    assert ssh.known_hosts.read_text() == ""
    # The command that is given does what it says (the answer `yes` is given for it here).
    command = words_of_the_command(str(caught.value), "ssh")
    done = ["ssh", "-o", "StrictHostKeyChecking=accept-new", *command[1:], "true"]
    subprocess.run(done, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert connect(Host("box", "box")).run("echo in").out == b"in\n"


def test_a_changed_host_key_is_refused_and_the_command_forgets_the_old_one(ssh: SshWorld) -> None:
    old, new = ssh.jump.known_line.split(), ssh.server.known_line.split()
    ssh.known_hosts.write_text(f"{new[0]} {old[1]} {old[2]}\n")
    with pytest.raises(TransportError, match="CHANGED") as caught:
        connect(Host("box", "box")).run("true")
    assert caught.value.kind == "host_key"
    command = words_of_the_command(str(caught.value), "ssh-keygen")
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(TransportError, match="not known"):
        connect(Host("box", "box")).run("true")


@pytest.mark.parametrize("known", ["unknown", "changed"])
def test_the_ssh_program_refuses_such_keys_too(ssh: SshWorld, known: str) -> None:
    old, new = ssh.jump.known_line.split(), ssh.server.known_line.split()
    ssh.known_hosts.write_text("" if known == "unknown" else f"{new[0]} {old[1]} {old[2]}\n")
    with pytest.raises(TransportError, match=f"`.*ssh .*{ssh.config}") as caught:
        connect(Host("box", "box", "openssh")).run("true")
    assert caught.value.kind == "host_key"


@pytest.mark.parametrize("strict", ["ask", "yes", "accept-new", "no"])
@pytest.mark.parametrize("known", ["unknown", "changed"])
def test_only_the_user_decides_to_accept_new_keys_and_nobody_accepts_changed_ones(
    ssh: SshWorld, strict: str, known: str
) -> None:
    ssh.write(f"Host box\n  StrictHostKeyChecking {strict}\n  HashKnownHosts yes\n")
    old, new = ssh.jump.known_line.split(), ssh.server.known_line.split()
    ssh.known_hosts.write_text("" if known == "unknown" else f"{new[0]} {old[1]} {old[2]}\n")
    if known == "unknown" and strict in {"accept-new", "no"}:
        assert connect(Host("box", "box")).run("echo in").out == b"in\n"
        # What was written is what ssh itself can read.
        found = ["ssh-keygen", "-F", new[0], "-f", str(ssh.known_hosts)]
        subprocess.run(found, check=True, capture_output=True)
        assert new[0] not in ssh.known_hosts.read_text()
    else:
        with pytest.raises(TransportError) as caught:
            connect(Host("box", "box")).run("true")
        assert caught.value.kind == "host_key"


def test_hashed_names_aliases_and_the_global_file_are_read(ssh: SshWorld) -> None:
    subprocess.run(
        ["ssh-keygen", "-H", "-f", str(ssh.known_hosts)], check=True, capture_output=True
    )
    assert "127.0.0.1" not in ssh.known_hosts.read_text()
    assert connect(Host("box", "box")).run("echo hashed").out == b"hashed\n"
    close_all()
    kind, key = ssh.server.known_line.split()[1:]
    common = ssh.folder / "global_known_hosts"
    common.write_text(f"# comment\n*.elsewhere,!the-box {kind} {key}\nthe-b?x {kind} {key}\n")
    ssh.write(f"Host box\n  HostKeyAlias the-box\n  GlobalKnownHostsFile {common}\n")
    assert connect(Host("box", "box")).run("echo alias").out == b"alias\n"


def test_a_revoked_key_is_refused(ssh: SshWorld) -> None:
    ssh.known_hosts.write_text(
        f"{ssh.server.known_line}@revoked * {ssh.server.known_line.split(' ', 1)[1]}"
    )
    with pytest.raises(TransportError, match="revoked") as caught:
        connect(Host("box", "box")).run("true")
    assert caught.value.kind == "host_key"


# Who the user is


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    path = folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        time.sleep(0.01)
    yield path
    process.terminate()
    process.wait()
    path.unlink(missing_ok=True)
    folder.rmdir()


def add_to(agent: Path, *words: str | Path) -> None:
    environment = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
    subprocess.run(["ssh-add", "-q", *words], check=True, env=environment, capture_output=True)


@BOTH
@pytest.mark.parametrize("how", ["environment", "IdentityAgent"])
def test_a_key_of_the_agent_is_used(
    ssh: SshWorld, agent: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str
) -> None:
    add_to(agent, ssh.key)
    extra = "Host box\n  IdentityFile /nowhere\n"
    if how == "environment":
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    else:
        extra += f"  IdentityAgent {agent}\n"
    ssh.write(extra)
    ssh.config.write_text(ssh.config.read_text().replace(f"  IdentityFile {ssh.key}\n", ""))
    assert connect(Host("box", "box", kind)).run("echo in").out == b"in\n"  # type: ignore[arg-type]


@BOTH
def test_a_key_with_a_certificate_is_used(ssh: SshWorld, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / "certified")
    command = ["ssh-keygen", "-q", "-s", str(ssh.folder / "user_authority"), "-I", "me"]
    command += ["-n", getpass.getuser(), f"{key}.pub"]
    subprocess.run(command, check=True)
    ssh.write(f"Host box\n  IdentityFile {key}\n")
    ssh.config.write_text(ssh.config.read_text().replace(f"  IdentityFile {ssh.key}\n", ""))
    assert connect(Host("box", "box", kind)).run("echo in").out == b"in\n"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["paramiko", "openssh", "auto"])
def test_a_key_that_is_not_accepted_says_what_to_do(
    ssh: SshWorld, tmp_path: Path, kind: str
) -> None:
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", locked], check=True)
    ssh.write(f"Host box\n  IdentityFile {locked}\n")
    ssh.config.write_text(ssh.config.read_text().replace(f"  IdentityFile {ssh.key}\n", ""))
    with pytest.raises(TransportError) as caught:
        connect(Host("box", "box", kind)).run("true")  # type: ignore[arg-type]
    assert caught.value.kind == "authentication"
    wanted = (
        f"ssh-add {locked}" if kind == "paramiko" else login_command(read_settings("box", "box"))
    )
    assert wanted in str(caught.value)


@pytest.fixture
def two_keys(ssh: SshWorld) -> Iterator[SshServer]:
    """Return a server that wants two keys one after the other: a second factor."""
    authorized = ssh.folder / "two_authorized"
    second = ssh.folder / "second_key"
    if not second.exists():
        keygen(second)
    authorized.write_text("".join(Path(f"{key}.pub").read_text() for key in (ssh.key, second)))
    server = SshServer(
        Path(tempfile.mkdtemp(dir=ssh.folder)), "two", authorized,
        {"AuthenticationMethods": "publickey,publickey"},
    )  # fmt: skip
    server.start()
    ssh.write(f"Host two\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {second}\n")
    ssh.known_hosts.write_text(server.known_line)
    yield server
    close_all()
    server.stop()


def test_a_second_factor_is_left_to_the_ssh_program(ssh: SshWorld, two_keys: SshServer) -> None:
    with pytest.raises(TransportError, match="transport: openssh"):
        connect(Host("two", "two", "paramiko")).run("true")
    assert connect(Host("two", "two", "auto")).run("echo in").out == b"in\n"


def test_a_connection_that_the_user_opened_is_used_and_left_open(
    ssh: SshWorld, two_keys: SshServer
) -> None:
    settings = read_settings("two", "two")
    subprocess.run(shlex.split(login_command(settings)), check=True, stdin=subprocess.DEVNULL)
    try:
        # From now on nobody could log in: there is only that connection.
        (ssh.folder / "two_authorized").write_text("")
        assert connect(Host("two", "two", "auto")).run("echo in").out == b"in\n"
        close_all()
        assert shared_socket(settings).is_socket()
        assert connect(Host("two", "two", "openssh")).run("echo in").out == b"in\n"
    finally:
        control = ["ssh", "-F", str(ssh.config), "-o", f"ControlPath={shared_socket(settings)}"]
        subprocess.run([*control, "-O", "exit", "two"], check=True, capture_output=True)
    with pytest.raises(TransportError, match="log in once in a terminal") as caught:
        connect(Host("two", "two", "openssh")).run("true")
    assert caught.value.kind == "authentication"


def test_a_connection_of_the_users_own_configuration_is_used(ssh: SshWorld, tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    ssh.write(f"Host box\n  ControlPath {folder}/%C\n")
    command = ["ssh", "-F", str(ssh.config), "-fNM", "box"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        before = ssh.server.log.read_text().count("Accepted publickey")
        assert connect(Host("box", "box", "openssh")).run("echo in").out == b"in\n"
        assert ssh.server.log.read_text().count("Accepted publickey") == before
    finally:
        close_all()
        subprocess.run([*command[:3], "-O", "exit", "box"], check=True, capture_output=True)
        folder.rmdir()


def test_sockets_lie_in_a_short_folder_of_the_user_alone(
    ssh: SshWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 90)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    open_ = tmp_path / "open"
    for runtime in (long, open_):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        (runtime / "theseus-ssh").mkdir(parents=True)
        (runtime / "theseus-ssh").chmod(0o777)  # prepared by somebody else, as it were
        folder = socket_folder()
        assert not folder.is_relative_to(runtime)
        assert folder.stat().st_mode & 0o077 == 0
        assert len(str(shared_socket(read_settings("box", "box")))) + 9 + 17 < 104


# Lines that break


@BOTH
def test_one_connection_carries_all_commands(ssh: SshWorld, kind: str) -> None:
    before = ssh.server.log.read_text().count("Accepted publickey")
    there = connect(Host("box", "box", kind))  # type: ignore[arg-type]
    for _ in range(5):
        there.run("true")
    there.put(b"x" * 10, "~/.theseus-test")
    there.run('rm -f "$HOME/.theseus-test"')
    assert ssh.server.log.read_text().count("Accepted publickey") == before + 1


def in_background(work: object) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def target() -> None:
        try:
            work()  # type: ignore[operator]
        except TransportError as error:
            errors.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    return thread, errors


@BOTH
@pytest.mark.parametrize("fault", ["cut", "stall", "killed"])
def test_a_lost_connection_is_noticed_and_opened_again(
    ssh: SshWorld, bad_line: BadLine, kind: str, fault: str
) -> None:
    there = connect(Host("bad", "bad", kind))  # type: ignore[arg-type]
    there.run("true")
    thread, errors = in_background(lambda: there.run("sleep 100", timeout=90))
    time.sleep(0.5)
    {"cut": bad_line.cut, "stall": bad_line.stall, "killed": ssh.server.cut}[fault]()
    thread.join(30)
    assert not thread.is_alive()
    assert [error.kind for error in errors if isinstance(error, TransportError)] == ["lost"]
    bad_line.flow()
    assert there.run("echo again").out == b"again\n"


@BOTH
def test_a_stream_that_is_cut_says_so(ssh: SshWorld, bad_line: BadLine, kind: str) -> None:
    stream = connect(Host("bad", "bad", kind)).stream("echo first; sleep 100")  # type: ignore[arg-type]
    assert stream.read(10) == b"first\n"
    bad_line.cut()
    with pytest.raises(TransportError) as caught:
        b"".join(stream)
    assert caught.value.kind == "lost"


@BOTH
def test_an_upload_that_is_cut_goes_on_by_itself(
    ssh: SshWorld, bad_line: BadLine, tmp_path: Path, kind: str
) -> None:
    there = connect(Host("bad", "bad", kind))  # type: ignore[arg-type]
    there.run("true")
    target = tmp_path / "target"
    target.write_bytes(b"as it was")
    content = os.urandom(8 << 20)
    bad_line.cut_after(3 << 20)
    starts: list[int] = []

    def progress(sent: int, size: int | None) -> None:
        assert target.read_bytes() in {b"as it was", content}
        if not starts or bad_line.connections > len(starts):
            starts.append(sent)

    there.put(content, str(target), progress=progress)
    assert target.read_bytes() == content
    assert list(tmp_path.iterdir()) == [target]
    assert bad_line.connections == 2
    assert starts[0] == 0
    assert starts[1] > 1 << 20


@BOTH
def test_a_small_upload_that_is_cut_leaves_nothing(
    ssh: SshWorld, bad_line: BadLine, tmp_path: Path, kind: str
) -> None:
    there = connect(Host("bad", "bad", kind))  # type: ignore[arg-type]
    there.run("true")
    target = tmp_path / "target"
    target.write_bytes(b"as it was")
    bad_line.cut_after(500_000)
    with pytest.raises(TransportError) as caught:
        there.put(os.urandom(1_000_000), str(target))
    assert caught.value.kind == "lost"
    assert target.read_bytes() == b"as it was"
    deadline = time.monotonic() + 10
    while list(tmp_path.iterdir()) != [target] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == [target]


@BOTH
def test_a_download_that_is_cut_goes_on_by_itself(
    ssh: SshWorld, bad_line: BadLine, tmp_path: Path, kind: str
) -> None:
    there = connect(Host("bad", "bad", kind))  # type: ignore[arg-type]
    there.run("true")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(8 << 20))
    bad_line.cut_after(3 << 20)
    starts: list[int] = []

    def progress(have: int, size: int | None) -> None:
        if not starts or have < starts[-1] or bad_line.connections > len(starts):
            starts.append(have)

    there.get(str(source), tmp_path / "target", progress=progress)
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    assert bad_line.connections == 2
    assert starts[0] == 0
    assert starts[1] > 1 << 20


def test_a_server_that_says_nothing_is_given_up_in_time(ssh: SshWorld) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ssh.write(f"Host silent\n  HostName 127.0.0.1\n  Port {port}\n  ConnectTimeout 2\n")
        began = time.monotonic()
        with pytest.raises(TransportError) as caught:
            connect(Host("silent", "silent")).run("true", timeout=60)
        assert time.monotonic() - began < 30
        assert caught.value.kind in {"timeout", "unreachable"}


def test_threads_that_wait_for_one_attempt_share_its_failure(ssh: SshWorld) -> None:
    ssh.write(f"Host gone\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    there = connect(Host("gone", "gone"))
    waiting = [in_background(lambda: there.run("true")) for _ in range(4)]
    for thread, errors in waiting:
        thread.join(20)
        assert [type(error) for error in errors] == [TransportError]


def test_an_interrupt_goes_to_us_and_not_to_the_connection(ssh: SshWorld) -> None:
    there = connect(Host("box", "box", "openssh"))
    there.run("true")
    for child in psutil.Process().children(recursive=True):
        if child.name() == "ssh":
            assert os.getpgid(child.pid) != os.getpgrp()
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            there.run("sleep 30")
    finally:
        signal.signal(signal.SIGINT, previous)
    assert there.run("echo on").out == b"on\n"
