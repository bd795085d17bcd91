"""Sending to machines that others use too: GPUs that nobody shares, and a Volcano queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.fakes import Gpus, Kubectl, program
from tests.dispatch.sending import Sending, at_once, until
from tests.services.sshd import SshWorld
from theseus.cli.call import execute
from theseus.dispatch.providers import plain
from theseus.dispatch.providers.base import PROVIDERS, NoRoomError
from theseus.dispatch.remote import RemoteError
from theseus.dispatch.submission import NoHostError

pytestmark = pytest.mark.slow


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    return Sending(tmp_path, monkeypatch)


@pytest.fixture
def gpus(sending: Sending, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """A machine with two h100, on which JAX takes processors."""
    made = Gpus(sending.tmp / "machine", count=2)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_NVIDIA_SMI", str(made.state))
    monkeypatch.setattr(plain, "CLAIMS", str(sending.tmp / "claims"))
    sending.write_inventory(host="env: {JAX_PLATFORMS: cpu}")
    return made


def given(sending: Sending, run: Any) -> list[str]:
    status = json.loads((sending.folder(run) / "status.json").read_text())
    return status["gpus"]


def test_two_who_submit_at_once_never_get_the_same_gpu(sending: Sending, gpus: Gpus) -> None:
    specs = [
        sending.spec(name, pause=0.2, steps=200).chip("h100").gpu(1) for name in ("one", "two")
    ]
    first, second = at_once(*(lambda spec=spec: sending.submit(spec) for spec in specs))
    until(lambda: first.state == "running" and second.state == "running")
    assert sorted(given(sending, first) + given(sending, second)) == ["GPU-0", "GPU-1"]
    with pytest.raises(NoHostError, match="me  no"):
        sending.submit(sending.spec("three").chip("h100").gpu(1))
    assert first.cancel() == "cancelled"
    third = sending.submit(sending.spec("three").chip("h100").gpu(1))
    assert third.wait(180) == "finished"
    assert second.cancel() == "cancelled"


SLOW_UV = """#!/bin/sh
case $1 in
venv) for place; do :; done ;;
*) exit 0 ;;
esac
mkdir -p "$place/bin"
printf '#!/bin/sh\\nexec %s "$@"\\n' PYTHON >"$place/bin/python"
chmod +x "$place/bin/python"
echo "resolving"
until [ -e GATE ]; do sleep 0.05; done
[ ! -e GATE.fail ] || exit 1
"""


class SlowUv:
    """A `uv` that prepares for as long as the test likes; each project has an environment."""

    def __init__(self, sending: Sending, gpus: Gpus) -> None:
        self.gate = sending.tmp / "gate"
        text = SLOW_UV.replace("PYTHON", sys.executable).replace("GATE", str(self.gate))
        program(gpus.bin, "uv", text)
        entry = sending.inventory.read_text().splitlines()
        entry = [line for line in entry if "python:" not in line]
        sending.inventory.write_text("\n".join(entry))
        self.projects = [sending.project, sending.tmp / "another project"]
        self.projects[1].mkdir()
        for folder in self.projects:
            (folder / ".python-version").write_text("3")
        (self.projects[1] / "more.py").write_text("")

    def open(self) -> None:
        self.gate.touch()


def held(sending: Sending) -> list[str]:
    """Return the GPUs on which somebody has a claim."""
    return sorted(path.name.partition("@")[0] for path in (sending.tmp / "claims").glob("*@*"))


def test_the_gpus_of_a_run_are_its_own_while_its_environment_is_prepared(
    sending: Sending, gpus: Gpus
) -> None:
    """Of two who submit at once, both wait for uv with a GPU each; a third is told at once."""
    slow = SlowUv(sending, gpus)
    specs = [
        sending.spec(name, pause=0.2, steps=200).chip("h100").gpu(1) for name in ("one", "two")
    ]
    runs: list[Any] = []
    both = threading.Thread(
        target=lambda: runs.extend(
            at_once(*(lambda spec=spec: sending.submit(spec) for spec in specs))
        )
    )
    both.start()
    until(lambda: held(sending) == ["GPU-0", "GPU-1"], 30)
    assert both.is_alive()
    with pytest.raises(NoHostError, match="2 × h100 busy"):
        sending.submit(sending.spec("three").chip("h100").gpu(1))
    slow.open()
    both.join()
    first, second = runs
    until(lambda: first.state == "running" and second.state == "running")
    assert sorted(given(sending, first) + given(sending, second)) == ["GPU-0", "GPU-1"]
    assert {first.cancel(), second.cancel()} == {"cancelled"}


def test_of_two_who_want_the_last_gpu_one_is_told_before_anything_is_prepared(
    sending: Sending, gpus: Gpus
) -> None:
    gpus.show(gpus.rows[0])
    slow = SlowUv(sending, gpus)
    specs = [sending.spec(name).chip("h100").gpu(1) for name in ("one", "two")]
    results: list[Any] = []

    def submit(spec: Any) -> None:
        try:
            results.append(sending.submit(spec))
        except NoHostError as error:
            results.append(error)

    threads = [threading.Thread(target=submit, args=(spec,)) for spec in specs]
    for thread in threads:
        thread.start()
    until(lambda: len(results) == 1, 30)
    assert isinstance(results[0], NoHostError)
    assert "1 × h100 busy" in str(results[0])
    slow.open()
    for thread in threads:
        thread.join()
    assert results[1].wait(180) == "finished"
    assert "gpus=GPU-0\n" in (sending.folder(results[1]) / "process").read_text()


def test_when_preparing_fails_the_gpus_are_free_again(sending: Sending, gpus: Gpus) -> None:
    slow = SlowUv(sending, gpus)
    slow.gate.with_name("gate.fail").touch()
    slow.open()
    with pytest.raises(RemoteError, match="uv venv failed"):
        sending.submit(sending.spec("one").chip("h100").gpu(2))
    assert held(sending) == []


def test_when_somebody_was_faster_it_is_decided_again(
    sending: Sending, gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = type(PROVIDERS["local"])
    launch = local.launch
    tries: list[int] = []

    def late(self: Any, *given: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise NoRoomError("host 'me': the GPUs that were free have been taken")
        return launch(self, *given)

    monkeypatch.setattr(local, "launch", late)
    run = sending.submit(sending.spec().chip("h100").gpu(1))
    assert run.wait(180) == "finished"
    assert any("have been taken" in line for line in sending.told)


# Volcano, by a `kubectl` that keeps what it is given and runs what is executed in a pod


def test_a_run_goes_through_a_volcano_queue(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Kubectl(sending.tmp, monkeypatch)
    cluster.put("queues.scheduling.volcano.sh.research", {"status": {"state": "Open"}})
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    sending.inventory.write_text(
        f"""
clusters:
  pvc: {{root: {json.dumps(str(sending.root))}, work: {json.dumps(str(sending.work))}}}
hosts:
  pool:
    type: volcano
    cluster: pvc
    image: python
    pvc_name: shared
    queue: research
    num_nodes: 2
    gpus_per_node: 8
    chips: {{h100: 16}}
    python: {json.dumps(sys.executable)}
    env: {{JAX_PLATFORMS: cpu, HF_TOKEN: "${{oc.env:HF_TOKEN}}"}}
"""
    )
    run = sending.submit(sending.spec(pause=0.1, steps=4))
    (name,) = cluster.jobs()
    manifest = (cluster.state / name).read_text()
    assert "hf_0123456789abcdef" not in manifest
    cluster.put("pods", {"items": [{"status": {"phase": "Pending"}}]})
    assert run.state == "queued"
    again = sending.submit(sending.spec(pause=0.1, steps=4))
    assert again.id == run.id
    assert cluster.jobs() == [name]

    container = json.loads(manifest)["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    cluster.put("pods", {"items": [{"status": {"phase": "Running"}}]})
    command = [word.replace("$$", "$") for word in container["command"]]
    env = {one["name"]: one["value"] for one in container["env"]}
    pod = subprocess.run(command, env={**os.environ, **env}, check=False, capture_output=True)
    assert pod.returncode == 0, pod.stderr
    assert run.wait(30) == "finished"
    assert "secret is 19 long" in str(run.logs())
    assert [line["step"] for line in run.metrics()] == [1, 2, 3, 4]
    assert not (sending.folder(run) / "dispatch.json").exists()


# An entry for a machine


def test_a_host_is_looked_at_shown_and_written(
    sending: Sending, ssh: SshWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sending.tmp / "new.yaml"
    root = sending.tmp / "its root"
    words = ["hosts", "add", "box", "-d", path, "--root", root, "--work", root / "work", "--yes"]
    assert execute([str(word) for word in words]) == 0
    told = capsys.readouterr()
    assert "ssh: box" in told.err
    assert f"wrote 'box' to {path}" in told.out
    text = path.read_text()
    assert f"root: {root}" in text
    assert execute(["hosts", "-d", str(path)]) == 0
    assert capsys.readouterr().out.split()[:2] == ["box", "plain"]


def test_a_host_is_not_written_unasked(
    sending: Sending, ssh: SshWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sending.tmp / "new.yaml"
    assert execute(["hosts", "add", "box", "-d", str(path)]) == 2
    assert "--root" in capsys.readouterr().err
    assert not path.exists()
