"""Whose settings count: the user's own, as OpenSSH reads them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.sshd import missing
from theseus.dispatch.transport import TransportError, known_hosts, ssh_config
from theseus.dispatch.transport.ssh_config import (
    Settings,
    parse_jump,
    parse_settings,
    read_settings,
    ssh_program,
)

# Every case is read by `ssh -G` and by our own reader, which must agree.
CASES = {
    "plain": "Host box\n  HostName 10.0.0.7\n  Port 2222\n  User me\n",
    "equals signs, quotes, comments": (
        'Host=box # mine\n  HostName = 10.0.0.7 # there\n  UserKnownHostsFile "/a b/known" /c\n'
    ),
    "the first value wins": "Host box\n  Port 1\nHost *\n  Port 2\n  User all\n",
    "patterns": "Host b?x !nothing\n  Port 3\nHost * !box\n  Port 4\nHost [b]ox\n  User wrong\n",
    "tokens": "Host box\n  HostName %h.example.org\n  IdentityFile ~/.ssh/%h-%p-%%\n",
    "several keys": "Host box\n  IdentityFile /one\nHost *\n  IdentityFile ~/two\n",
    "include": "Include parts/*.conf\nHost *\n  Port 9\n",
    "include inside a host": "Host other\n  Include parts/*.conf\nHost *\n  Port 9\n",
    "match host": "Match host box user me\n  Port 5\nMatch host box\n  Port 6\n",
    "match original": "Host box\n  HostName h\nMatch originalhost box host h\n  Port 7\n",
    "match all": "Match all\n  User everybody\n",
    "match negated": "Match !host box\n  Port 5\nMatch !host other\n  Port 6\n",
    "fedora's default": "Host box\n  Port 2200\nMatch final all\n  User late\n",
    "jumps": "Host box\n  ProxyJump me@first:2200,second\n",
    "no jump": "Host box\n  ProxyJump none\nHost *\n  ProxyJump first\n",
    "proxy command": "Host box\n  ProxyCommand nc -X 5 'a b' %h %p # not a comment\n",
    "host keys": "Host box\n  HostKeyAlias known-as\n  StrictHostKeyChecking accept-new\n",
    "agent": 'Host box\n  IdentityAgent "/run/my agent"\n  IdentitiesOnly yes\n',
    "alive": "Host box\n  ServerAliveInterval 7\n  ServerAliveCountMax 2\n  ConnectTimeout 4\n",
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if ssh_program() is None:
        missing("ssh")
    path = tmp_path / "config"
    monkeypatch.setenv("THESEUS_SSH_CONFIG", str(path))
    return path


@pytest.mark.parametrize("case", CASES)
def test_our_reader_agrees_with_openssh(
    config: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    parts = config.parent / "parts"
    parts.mkdir()
    (parts / "a.conf").write_text("Host box\n  Port 8\n")
    (parts / "b.conf").write_text("User included\n")
    config.write_text(CASES[case].replace("parts/", f"{parts}/"))
    theirs = read_settings("box", "box")
    monkeypatch.setattr(ssh_config, "ssh_program", lambda: None)
    ours = read_settings("box", "box")
    assert ours.identity_files[:1] == theirs.identity_files[:1]
    # Of these, `ssh -G` lists defaults of its own.
    same = {"identity_files": (), "control_path": None, "strict": ""}
    assert replace(ours, **same) == replace(theirs, **same)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    ["Match localnetwork 10.0.0.0/8", "Match final !exec false", "Match tagged x", "Match what"],
)
def test_a_match_that_cannot_be_judged_applies_to_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(ssh_config, "ssh_program", lambda: None)
    config.write_text(f"{line}\n  Port 6666\nHost box\n  Port 22\n")
    assert read_settings("box", "box").port == 22


def test_what_is_given_beside_the_name_wins(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("Host box\n  User me\n  Port 1\n")
    for program in (ssh_program(), None):
        monkeypatch.setattr(ssh_config, "ssh_program", lambda program=program: program)
        settings = read_settings("box", "you@box", port=7)
        assert (settings.user, settings.port) == ("you", 7)
        url = read_settings("box", "ssh://you@box:8")
        assert (url.hostname, url.user, url.port) == ("box", "you", 8)


def test_a_file_that_includes_itself_is_a_mistake(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_config, "ssh_program", lambda: None)
    config.write_text(f"Include {config}\n")
    with pytest.raises(TransportError, match="includes itself"):
        read_settings("box", "box")


def test_an_open_quote_is_shown_with_its_line(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_config, "ssh_program", lambda: None)
    config.write_text('Host box\n  User "me\n')
    with pytest.raises(TransportError, match="line 2: a quote is not closed"):
        read_settings("box", "box")


def test_several_paths_in_a_line_are_told_apart() -> None:
    settings = parse_settings("box", "userknownhostsfile /root/a b /root/c\n")
    assert settings.known_hosts == (Path("/root/a b"), Path("/root/c"))


def test_words_that_are_not_known_are_left_out() -> None:
    settings = parse_settings("box", "hostname h\nport many\nnewword x y\n\nidentitiesonly maybe\n")
    assert (settings.hostname, settings.port, settings.identities_only) == ("h", 22, False)


@pytest.mark.parametrize(
    "line", ["proxyusefdpass yes", "knownhostscommand /bin/x", "verifyhostkeydns yes"]
)
def test_what_only_openssh_can_follow_is_left_to_it(line: str) -> None:
    assert parse_settings("box", f"hostname h\n{line}\n").only_openssh


@pytest.mark.parametrize(
    ("jump", "parts"),
    [
        ("host", ("host", None, None)),
        ("me@host:22", ("host", "me", 22)),
        ("ssh://me@host:22", ("host", "me", 22)),
        ("[fe80::1]:22", ("fe80::1", None, 22)),
        ("a:b:c", None),
        ("", None),
    ],
)
def test_a_jump_is_a_name_a_user_and_a_port(
    jump: str, parts: tuple[str, str | None, int | None] | None
) -> None:
    assert parse_jump(jump) == parts


# Known hosts, judged by ssh-keygen


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("port", [22, 2222])
def test_entries_are_those_that_ssh_keygen_finds(
    tmp_path: Path, port: int, *, hashed: bool
) -> None:
    if ssh_program() is None:
        missing("ssh")
    path = tmp_path / "known"
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIMB4mAmTf1QCbkVc7rV0sVJ6lJ3L0Q6oGmPgq7YkHkYd"
    names = ["h.org", "[h.org]:2222", "other", "h.org.evil", "[h.org]:22222"]
    broken = "" if hashed else "broken\n"  # which `ssh-keygen -H` refuses
    path.write_text(
        f"# mine\n\n{broken}" + "".join(f"{name} ssh-ed25519 {key}\n" for name in names)
    )
    if hashed:
        subprocess.run(["ssh-keygen", "-H", "-f", path], check=True, capture_output=True)
    settings = Settings("h", "H.org", port=port, known_hosts=(path,))
    ours = [entry.line for entry in known_hosts.entries(settings.key_name, [path])]
    found = subprocess.run(
        ["ssh-keygen", "-F", settings.key_name, "-f", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = [int(line.split()[-1]) for line in found.splitlines() if line.startswith("# Host")]
    assert ours == theirs
    assert len(ours) == 1


def test_a_new_key_is_remembered_once_and_found_again(tmp_path: Path) -> None:
    for hashed in (False, True):
        path = tmp_path / f"new folder {hashed}" / "known"
        settings = Settings("h", "h", 2222, known_hosts=(path,), hash_known_hosts=hashed)
        known_hosts.remember(settings, "ssh-ed25519", b"key")
        assert known_hosts.judge(settings, "ssh-ed25519", b"key").trusted
        assert not known_hosts.judge(settings, "ssh-ed25519", b"other").trusted
        assert path.stat().st_mode & 0o777 == 0o600
        assert ("[h]:2222" in path.read_text()) != hashed


def test_the_kind_of_key_that_is_known_is_asked_for_first(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text("h ssh-rsa AAAA\nh ecdsa-sha2-nistp256 AAAA\n")
    settings = Settings("h", "h", known_hosts=(path,))
    wanted = ["rsa-sha2-512", "rsa-sha2-256", "ecdsa-sha2-nistp256"]
    assert known_hosts.preferred_kinds(settings) == wanted


def test_without_the_ssh_program_an_unknown_key_is_accepted_by_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_hosts, "ssh_program", lambda: None)
    path = tmp_path / "a folder" / "known"
    path.parent.mkdir()
    settings = Settings("h", "h", known_hosts=(path,))
    problem = known_hosts.judge(settings, "ssh-ed25519", b"key").problem
    command = problem[problem.index("echo ") :].rstrip("`")
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert known_hosts.judge(settings, "ssh-ed25519", b"key").trusted
