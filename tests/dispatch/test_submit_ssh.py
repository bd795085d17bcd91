"""Sending a run over a real SSH server: any login shell, few commands, and no byte lost with it."""

from __future__ import annotations

import json
import pwd
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending, until
from tests.services.sshd import BadLine, SshWorld, account_with
from theseus.dispatch import transport
from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.transport.shell import Shell

pytestmark = pytest.mark.slow


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh: SshWorld) -> Sending:
    made = Sending(tmp_path, monkeypatch)
    made.ssh = ssh  # type: ignore[attr-defined]
    host_over_ssh(made, "box")
    return made


def host_over_ssh(sending: Sending, name: str, **folders: str) -> None:
    """Let the inventory have the host `there`, reached by `ssh name`."""
    cluster = {"root": str(sending.root), "work": str(sending.work), **folders}
    lines = "\n    ".join(f"{key}: {json.dumps(value)}" for key, value in cluster.items())
    sending.inventory.write_text(
        f"""
clusters:
  afar:
    {lines}
hosts:
  there:
    type: plain
    ssh: {name}
    cluster: afar
    python: {json.dumps(sys.executable)}
"""
    )


@pytest.mark.parametrize("name", ["box", "inner"])
def test_a_run_goes_to_a_host_and_its_log_comes_back(sending: Sending, name: str) -> None:
    host_over_ssh(sending, name)
    run = sending.submit(sending.spec(pause=0.1, steps=5))
    text = "".join(run.logs(follow=True))
    assert text == (sending.folder(run) / "log/0.log").read_text()
    assert run.state == "finished"
    assert [line["step"] for line in run.metrics()] == [1, 2, 3, 4, 5]
    record = json.loads((sending.folder(run) / "run.json").read_text())
    assert (record["host"], record["provider"], record["cluster"]) == ("there", "plain", "afar")


# Other accounts may not be able to run this Python: what they need of one is that it ends a run.
STAND_IN = r"""#!/bin/sh
[ "$1" = -c ] && { echo 3.11; exit; }
[ "$HF_TOKEN" = "" ] || exit 1
echo "works in $PWD for $3"
[ -f "$3/dispatch.json" ] && rm "$3/dispatch.json"
printf '{"v": 1, "state": "finished", "attempt": 1, "time": %s}\n' "$(date +%s)" >"$3/status.json"
"""


@pytest.mark.parametrize("shell", ["bash", "dash", "fish", "tcsh"])
def test_any_login_shell_and_a_chatty_start_up_file_will_do(sending: Sending, shell: str) -> None:
    world: SshWorld = sending.ssh  # type: ignore[attr-defined]
    user = account_with(shell, world.accounts)
    home = Path(pwd.getpwnam(user).pw_dir)
    if shell == "bash":
        (home / ".bashrc").write_text("echo welcome; printf 'disk is \\377 full\\n' >&2\n")
    stand_in = world.folder / "stand in"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    host_over_ssh(sending, shell, root="~/its 'root'", work="$HOME/work", log="~/logs")
    text = sending.inventory.read_text().replace(
        json.dumps(sys.executable), json.dumps(str(stand_in))
    )
    sending.inventory.write_text(text)
    run = sending.submit(sending.spec("it's $HOME; `x`"))
    assert run.wait(180) == "finished", str(run.logs())
    name = f"its-HOME-x-{run.id}"
    assert run.folder == f"{home}/its 'root'/runs/general/default/{name}"
    log = str(run.logs())
    assert log.splitlines()[1].startswith(f"works in {home}/work/theseus/bundles/")
    assert log == (home / "logs" / name / "0.log").read_text()
    assert (home / "work/theseus").stat().st_uid == pwd.getpwnam(user).pw_uid


def test_a_warm_host_is_asked_at_most_six_times(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_over_ssh(sending, "box", log=str(sending.tmp / "logs"))
    sending.submit(sending.spec("first")).wait(180)
    commands: list[str] = []
    session = Shell.session

    def counted(self: Shell, program: str, *rest: Any) -> Any:
        commands.append(program)
        return session(self, program, *rest)

    monkeypatch.setattr(Shell, "session", counted)
    begun = time.monotonic()
    run = sending.submit(sending.spec("second"))
    print(f"submit took {time.monotonic() - begun:.2f} s, {len(commands)} commands")
    assert len(commands) <= 6
    monkeypatch.setattr(Shell, "session", session)
    assert run.wait(180) == "finished"


def test_no_byte_is_lost_when_the_servers_side_of_the_connection_is_killed(
    sending: Sending,
) -> None:
    world: SshWorld = sending.ssh  # type: ignore[attr-defined]
    run = sending.submit(sending.spec(pause=0.1, steps=40))
    told: list[str] = []
    pieces: list[str] = []
    thread = threading.Thread(
        target=lambda: pieces.extend(run.logs(follow=True, tell=told.append)), daemon=True
    )
    thread.start()
    until(lambda: "step 5 " in "".join(pieces))
    world.server.cut()
    thread.join(60)
    assert "".join(pieces) == (sending.folder(run) / "log/0.log").read_text()
    assert "step 40 " in "".join(pieces)
    assert any("trying again" in line for line in told)
    assert run.state == "finished"


def test_no_byte_is_lost_over_a_line_that_stalls_and_a_reader_that_begins_again(
    sending: Sending, bad_line: BadLine
) -> None:
    host_over_ssh(sending, "bad")
    run = sending.submit(sending.spec(pause=0.1, steps=60))
    first: list[str] = []
    stop = threading.Event()
    reader = threading.Thread(
        target=lambda: first.extend(run.logs(follow=True, stop=stop)), daemon=True
    )
    reader.start()
    until(lambda: "step 5 " in "".join(first))
    bad_line.stall()
    time.sleep(1)
    bad_line.cut()
    bad_line.flow()
    until(lambda: "step 30 " in "".join(first), 120)
    stop.set()
    reader.join(20)
    transport.close_all()
    whole = "".join(DispatchedRun.find(run.id).logs(follow=True))
    assert whole == (sending.folder(run) / "log/0.log").read_text()
    assert whole.startswith("".join(first))


def test_a_host_out_of_reach_makes_a_run_unknown_and_starts_nothing_twice(
    sending: Sending, bad_line: BadLine
) -> None:
    host_over_ssh(sending, "bad")
    spec = sending.spec(pause=0.1, steps=50)
    run = sending.submit(spec)
    until(lambda: run.state == "running")
    transport.close_all()
    bad_line.close()
    state = run.look()
    assert state.word == "unknown"
    assert state.last == "running"
    assert not state.ended
    again = sending.submit(spec)
    assert again.id == run.id
    assert "unknown" in sending.told[-1]
    world: SshWorld = sending.ssh  # type: ignore[attr-defined]
    world.write(f"Host bad\n  HostName 127.0.0.1\n  Port {world.server.port}\n")
    assert run.wait(180) == "finished"
    assert str(run.logs()).count("theseus: begins on") == 1
