"""The worker: its surroundings, the devices it was promised, and what it does when stopped."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from theseus.combobulation import Combobulation
from theseus.dispatch.worker.order import FILE, Order
from theseus.dispatch.worker.trial_job import Trial
from theseus.dispatch.worker.work import PromiseError, check_devices
from theseus.quick import QuickJob

ROOT = Path(__file__).parents[2]
START = ROOT / "theseus/dispatch/worker/start.sh"


def order(**changes: Any) -> Order:
    facts: dict[str, Any] = {"run": "r1", "provider": "plain", "root": "/r", "recipe": {}}
    return Order(**facts | changes)


# Devices


def test_a_run_on_processors_is_promised_nothing() -> None:
    check_devices(order())


def test_processors_in_place_of_gpus_are_refused_with_what_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import jax

    monkeypatch.delenv("JAX_PLATFORMS")
    assert jax.local_devices()[0].platform == "cpu"
    with pytest.raises(PromiseError, match=r"2 × h100 were promised.*uv_groups"):
        check_devices(order(chip="h100", chips=2))


@pytest.mark.parametrize(("seen", "promised"), [(1, 2), (8, 2)])
def test_more_or_fewer_devices_than_promised_are_refused(
    monkeypatch: pytest.MonkeyPatch, seen: int, promised: int
) -> None:
    import jax

    class Device:
        platform = "gpu"

    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setattr(jax, "local_devices", lambda: [Device()] * seen)
    with pytest.raises(PromiseError, match=f"JAX sees {seen}"):
        check_devices(order(chip="h100", chips=promised))
    check_devices(order(chip="h100", chips=seen))


def test_a_host_that_wants_processors_is_held_to_the_gpus_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    check_devices(order(chip="h100", chips=1))
    with pytest.raises(PromiseError, match="2 × h100 were promised; given: GPU-a"):
        check_devices(order(chip="h100", chips=2))


# A worker by hand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder as it is sent, with the tiny job of `hosts test`."""
    made = tmp_path / "the run's folder"
    for part in ("log", "checkpoints", "results"):
        (made / part).mkdir(parents=True)
    recipe = QuickJob(tmp_path).build(Trial, "tiny").spec()
    record = {"v": 1, "id": "r1", "name": "tiny", "host": "box", "base": "b", "fresh": 0}
    record |= {"project": "p", "group": "g", "job": "j", "created": 1.0}
    (made / "run.json").write_text(json.dumps(record))
    (made / "config.yaml").write_text("{}\n")
    (made / "status.json").write_text('{"v": 1, "state": "queued", "attempt": 0}')
    write_order(made, recipe)
    return made


def write_order(folder: Path, recipe: Combobulation, **changes: Any) -> None:
    from omegaconf import OmegaConf

    plain: Any = OmegaConf.to_container(recipe.serialize(), resolve=False)
    told = order(root=str(folder.parent), recipe=plain, **changes)
    (folder / FILE).write_text(told.text())


def start(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(START), str(folder), sys.executable, str(ROOT), str(folder / "cache")],
        capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "THESEUS_PROCESS": "0", **environ},
    )  # fmt: skip


def status(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "status.json").read_text())


def test_the_worker_runs_the_job_and_removes_its_order(folder: Path) -> None:
    done = start(folder)
    assert done.returncode == 0, done.stderr
    assert status(folder)["state"] == "finished"
    assert json.loads((folder / "results/trial.json").read_text())["sum"] == 64.0**3
    assert not (folder / FILE).exists()
    assert done.stdout.startswith("[")
    assert "theseus: begins on" in done.stdout.splitlines()[0]


def test_the_environment_of_the_order_is_there_before_python_begins(folder: Path) -> None:
    recipe = QuickJob(folder.parent).build(Trial, "tiny").spec()
    write_order(folder, recipe, env={"PYTHONWARNINGS": "error::ResourceWarning", "X": "a b\n'c'"})
    (folder / "setup.sh").write_text("MARK='set up'\nexport MARK\n")
    done = start(folder)
    assert done.returncode == 0, done.stderr
    assert status(folder)["state"] == "finished"


def test_a_recipe_that_cannot_run_fails_with_its_message_and_no_traceback(folder: Path) -> None:
    recipe = QuickJob(folder.parent).build(Trial, "tiny").spec()
    plain = json.loads((folder / FILE).read_text())
    plain["recipe"]["config"]["trial"]["size"] = "large"
    (folder / FILE).write_text(json.dumps(plain))
    done = start(folder)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "trial.size" in status(folder)["reason"]
    assert status(folder)["state"] == "failed"
    assert not (folder / FILE).exists()
    assert recipe.identity.name == "tiny"


def test_a_promise_that_is_not_kept_ends_the_run_before_it_is_opened(folder: Path) -> None:
    recipe = QuickJob(folder.parent).build(Trial, "tiny").spec()
    write_order(folder, recipe, chip="h100", chips=1, env={"JAX_PLATFORMS": "cpu"})
    done = start(folder, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "1 × h100 were promised" in status(folder)["reason"]
    assert not (folder / "metrics.jsonl").exists()


def test_a_worker_without_its_order_says_so(folder: Path) -> None:
    (folder / FILE).unlink()
    assert start(folder).returncode == 1
    assert status(folder)["reason"] == "its order is gone; submit it again"


def test_a_finished_run_is_not_run_again(folder: Path) -> None:
    start(folder)
    recipe = QuickJob(folder.parent).build(Trial, "tiny").spec()
    write_order(folder, recipe)
    (folder / "results/trial.json").unlink()
    assert start(folder).returncode == 0
    assert not (folder / "results/trial.json").exists()
    assert status(folder)["attempt"] == 1


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    told = order(env={"A": "ü\n\"'$"}, recipe={"name": "x"}, chip="h100", chips=2, nodes=3)
    (tmp_path / FILE).write_text(told.text())
    (tmp_path / FILE).chmod(0o600)
    assert Order.read(tmp_path) == told
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
