"""The chapter `remote-training`, as its readers type it: a notebook and a terminal, ssh and SLURM."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.slurm import Slurm
from tests.services.sshd import SshServer, SshWorld
from theseus.cli.call import execute
from theseus.dispatch import DispatchedRun, transport

pytestmark = pytest.mark.slow

CHAPTER = Path(__file__).parents[2] / "docs/tutorial/remote-training.md"
CELLS = re.findall(r"^```python\n(.*?)^```$", CHAPTER.read_text("utf-8"), re.DOTALL | re.MULTILINE)
TERMINAL = re.findall(
    r"^```console\n(.*?)^```$", CHAPTER.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.fixture(params=["plain", "slurm"])
def reader(
    request: pytest.FixtureRequest,
    ssh: SshWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A folder of somebody who reaches `mycoolcomputor`: a machine, or the front door of many."""
    settings, more = "", ""
    if request.param == "slurm":
        slurm: Slurm = request.getfixturevalue("slurm")
        settings = " ".join(f"{name}={value}" for name, value in slurm.environment.items())
        more = "chips: {h100: 8}"
    name = f"tutorial-{tmp_path.name}"
    server = SshServer(ssh.folder, name, ssh.folder / "authorized_keys")
    config = ssh.folder / f"{name}.conf"
    config.write_text(config.read_text().replace("SetEnv SHLVL=1", f"SetEnv SHLVL=1 {settings}"))
    server.start()
    ssh.write(f"Host mycoolcomputor\n  HostName 127.0.0.1\n  Port {server.port}\n")
    with ssh.known_hosts.open("a") as file:
        file.write(server.known_line)
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text(
        f"""
clusters:
  mycoolcluster:
    root: {json.dumps(str(tmp_path / "remote/root"))}
    work: {json.dumps(str(tmp_path / "remote/work"))}
    log: {json.dumps(str(tmp_path / "remote/log"))}
hosts:
  mycoolcomputor:
    ssh: mycoolcomputor
    cluster: mycoolcluster
    type: {request.param}
    python: {json.dumps(sys.executable)}
    env: {{JAX_PLATFORMS: cpu, XLA_FLAGS: {json.dumps(flags(request.param))}}}
    {more}
"""
    )
    monkeypatch.setenv("THESEUS_CONFIG", str(inventory))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "my project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.chdir(folder)
    yield folder
    transport.close_all()
    server.stop()


def flags(kind: str) -> str:
    """Return XLA's flags: where four GPUs are asked for, four processors stand for them."""
    more = " --xla_force_host_platform_device_count=4" if kind == "slurm" else ""
    return os.environ["XLA_FLAGS"] + more


def test_from_the_recipe_to_the_log_in_a_notebook_and_in_a_terminal(
    reader: Path, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe, submitting, watching = CELLS
    slurm = "slurm" in request.node.name
    if not slurm:  # this machine has no GPUs
        recipe = recipe.replace('.chip("h100").gpu(4)', "")
    recipe = recipe.replace("200_000", "40_000").replace("n_embd = 128", "n_embd = 32")
    notebook: dict[str, Any] = {}
    exec(recipe, notebook)

    tokens, training = ([shlex.split(line) for line in one.splitlines()] for one in TERMINAL)
    for words in tokens:
        assert execute(words[1:]) == 0, capfd.readouterr().err
    for words in training:
        assert execute(words[1:]) == 0, capfd.readouterr().err
    told = capfd.readouterr()
    run = DispatchedRun.find("train-gpt")
    log = (Path(run.folder) / "log/0.log").read_text()
    assert log in told.out
    assert "finished on mycoolcomputor" in told.out
    assert (reader / "fetched/log/0.log").read_text() == log
    assert (reader.parent / f"remote/log/train-gpt-{run.id}/0.log").read_text() == log
    if slurm:
        assert run.entry.chips == "4 × h100"

    exec(submitting, notebook)  # the same submission: the run is found
    assert notebook["run"].id == run.id
    exec(watching, notebook)
    told = capfd.readouterr()
    assert told.out.startswith(log)
    assert told.out.splitlines()[-1].startswith("finished ")
