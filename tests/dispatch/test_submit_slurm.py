"""Sending a run to a real SLURM: queued, run, cancelled, queued again and gone on, on two nodes."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending, until
from tests.services.slurm import Slurm
from tests.services.sshd import SshServer, SshWorld
from tests.training.conftest import TINY, data_root
from theseus.cli.call import execute
from theseus.combobulation import Combobulation
from theseus.config import load
from theseus.dispatch import transport
from theseus.quick import QuickJob
from theseus.runs import Run

pytestmark = pytest.mark.slow

__all__ = ["data_root"]


@pytest.fixture
def sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: Slurm, ssh: SshWorld
) -> Iterator[Sending]:
    """A user who reaches the cluster's login node by `ssh login`."""
    settings = " ".join(f"{name}={value}" for name, value in slurm.environment.items())
    name = f"login-{tmp_path.name}"
    login = SshServer(ssh.folder, name, ssh.folder / "authorized_keys")
    config = ssh.folder / f"{name}.conf"
    config.write_text(config.read_text().replace("SetEnv SHLVL=1", f"SetEnv SHLVL=1 {settings}"))
    login.start()
    ssh.write(f"Host login\n  HostName 127.0.0.1\n  Port {login.port}\n")
    with ssh.known_hosts.open("a") as file:
        file.write(login.known_line)
    made = Sending(tmp_path, monkeypatch)
    write_inventory(made)
    yield made
    transport.close_all()
    login.stop()


def write_inventory(sending: Sending, **env: str) -> None:
    env = {"JAX_PLATFORMS": "cpu", **env}
    sending.inventory.write_text(
        f"""
clusters:
  queue:
    root: {json.dumps(str(sending.root))}
    work: {json.dumps(str(sending.work))}
hosts:
  batch:
    type: slurm
    ssh: login
    cluster: queue
    python: {json.dumps(sys.executable)}
    chips: {{h100: 8}}
    env: {json.dumps(env)}
"""
    )


def gpt(sending: Sending, data: Path, steps: int, name: str = "tiny") -> Combobulation:
    sending.root.mkdir(exist_ok=True)
    if not (sending.root / "data").exists():
        (sending.root / "data").symlink_to(data / "data")
    recipe = QuickJob(sending.tmp / "elsewhere").build("gpt/train/pretrain", name)
    load(recipe.config, TINY)
    recipe.config.training.tokens = steps * 8 * 32
    return recipe.spec()


def losses(run: Any) -> list[tuple[int, float]]:
    return [(line["step"], line["train/loss"]) for line in run.metrics() if "train/loss" in line]


def test_a_run_goes_through_the_queue_with_the_gpus_that_it_asked_for(sending: Sending) -> None:
    run = sending.submit(sending.spec(pause=0.1, steps=5).chip("h100").gpu(2))
    text = "".join(run.logs(follow=True))
    assert run.state == "finished"
    assert text == (sending.folder(run) / "log/0.log").read_text()
    assert [line["step"] for line in run.metrics()] == [1, 2, 3, 4, 5]
    assert run.entry.chips == "2 × h100"
    record = json.loads((sending.folder(run) / "run.json").read_text())
    assert (record["provider"], record["resources"]["gpus"]) == ("slurm", 2)
    assert not (sending.folder(run) / "dispatch.json").exists()
    assert sending.submit(sending.spec(pause=0.1, steps=5).chip("h100").gpu(2)).id == run.id


def test_while_it_waits_the_queues_reason_is_told(sending: Sending) -> None:
    first = sending.submit(sending.spec("first", pause=0.2, steps=500).chip("h100").gpu(8).nodes(2))
    until(lambda: first.state in {"preparing", "running"})
    second = sending.submit(sending.spec("second").chip("h100").gpu(4))
    state = until(lambda: (found := second.look()).reason and found)
    assert state.word == "queued"
    assert "Resources" in state.reason or "Priority" in state.reason
    told: list[str] = []
    text: list[str] = []
    log = second.logs(follow=True, tell=told.append)
    thread = threading.Thread(target=lambda: text.extend(log), daemon=True)
    thread.start()
    until(lambda: any(line.startswith("queued") for line in told))
    assert first.cancel() == "cancelled"
    thread.join(60)
    assert "step 3" in "".join(text)
    assert second.state == "finished"


def test_cancel_is_known_to_the_queue_and_to_the_run(sending: Sending, slurm: Slurm) -> None:
    run = sending.submit(sending.spec(pause=0.2, steps=500))
    until(lambda: run.state == "running")
    assert run.cancel() == "cancelled"
    assert slurm.client("squeue", "-h", "-o", "%i").split() == []
    status = json.loads((sending.folder(run) / "status.json").read_text())
    assert status["state"] == "cancelled"
    assert not (sending.folder(run) / "dispatch.json").exists()


def test_a_job_that_somebody_else_cancels_is_seen_as_cancelled(
    sending: Sending, slurm: Slurm
) -> None:
    run = sending.submit(sending.spec(pause=0.2, steps=500))
    until(lambda: run.state == "running")
    slurm.client("scancel", str(run.entry.handle["job"]))
    assert run.wait(180) == "cancelled"
    again = sending.submit(sending.spec(pause=0.2, steps=500))
    assert again.folder == run.folder
    assert again.entry.attempt == 2
    until(lambda: "resumed" in [event["kind"] for event in Run(sending.folder(again)).events()])
    again.cancel()


def test_at_the_time_limit_it_queues_again_and_goes_on_bit_for_bit(
    sending: Sending, slurm: Slurm, data_root: Path
) -> None:
    write_inventory(sending, XLA_FLAGS=os.environ["XLA_FLAGS"])
    run = sending.submit(gpt(sending, data_root, 300))
    until(lambda: len(run.metrics()) > 5, 90)
    slurm.client("scancel", "--batch", "--signal=USR1", str(run.entry.handle["job"]))
    until(lambda: run.state == "queued" or run.entry.status.get("attempt") == 2, 120)
    assert run.wait(240) == "finished"
    status = json.loads((sending.folder(run) / "status.json").read_text())
    assert status["attempt"] == 2
    events = [event["kind"] for event in Run(sending.folder(run)).events()]
    assert "resumed" in events
    whole = gpt(sending, data_root, 300, "never interrupted").create(sending.root)()
    assert losses(run) == losses(whole)


@pytest.mark.skipif(
    "THESEUS_BY_HAND" not in os.environ,
    reason="SLURM counts in minutes: takes three; THESEUS_BY_HAND=1 pytest -k real_time_limit",
)
def test_a_real_time_limit_is_survived_bit_for_bit(sending: Sending, data_root: Path) -> None:
    """`--time=1` and the `--signal` before it, as SLURM sends it; it may do so twice."""
    write_inventory(sending, XLA_FLAGS=os.environ["XLA_FLAGS"])
    text = sending.inventory.read_text()
    sending.inventory.write_text(text.replace("    chips:", '    time: "1"\n    chips:'))
    began = time.monotonic()
    gpt(sending, data_root, 200, "how fast").create(sending.root)()
    steps = int(200 * 45 / (time.monotonic() - began))
    run = sending.submit(gpt(sending, data_root, steps))
    assert run.wait(480) == "finished", str(run.logs())[-2000:]
    status = json.loads((sending.folder(run) / "status.json").read_text())
    assert status["attempt"] >= 2
    events = [event["kind"] for event in Run(sending.folder(run)).events()]
    assert "resumed" in events
    assert "the time limit is near" in (sending.folder(run) / "log/slurm.log").read_text()
    whole = gpt(sending, data_root, steps, "never interrupted").create(sending.root)()
    assert losses(run) == losses(whole)
    print(f"{steps} steps, {status['attempt']} attempts, {len(losses(run))} losses equal")


def test_two_nodes_train_one_model(
    sending: Sending, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sending.submit(gpt(sending, data_root, 12).nodes(2))
    assert run.wait(240) == "finished", str(run.logs())
    folder = sending.folder(run)
    started = next(event for event in Run(folder).events() if event["kind"] == "started")
    assert started["devices"] == 2
    assert "process 1 of 2" in (folder / "log/1.log").read_text()
    assert "process 1 of 2" in str(run.logs(rank=1))
    both = str(run.logs()).splitlines()
    assert {line[:4] for line in both} == {"0 | ", "1 | "}
    for rank in "01":
        lines = [line[4:] for line in both if line.startswith(rank)]
        assert lines == (folder / f"log/{rank}.log").read_text().splitlines()
    assert execute(["logs", run.id, "-n", "2"]) == 0
    assert sorted(line[:4] for line in capsys.readouterr().out.splitlines()) == [
        "0 | ", "0 | ", "1 | ", "1 | "
    ]  # fmt: skip
    alone = gpt(sending, data_root, 12, "alone").create(sending.root)()
    together = dict(losses(run))
    assert together.keys() == dict(losses(alone)).keys()
    for step, loss in losses(alone):
        assert together[step] == pytest.approx(loss, rel=1e-3)
