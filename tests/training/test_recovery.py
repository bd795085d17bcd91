"""A run that ends early goes on as if it had not: signals, kills, full disks, other meshes."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.training.conftest import TINY
from theseus.config import ConfigError, load
from theseus.evaluation import Perplexity
from theseus.job import StopRequested
from theseus.lineage import LineageError
from theseus.quick import quick
from theseus.runs import list_runs, open_run
from theseus.training.base import BaseTrainer, BaseTrainerConfig
from theseus.training.checkpoint import CheckpointError

Make = Callable[..., Any]
pytestmark = pytest.mark.slow

# A run in a process of its own, which can be killed.
SCRIPT = """
import json, sys
from theseus.config import load
from theseus.quick import quick

with quick(sys.argv[1]) as q:
    q.build("gpt/train/pretrain", "victim")
    load(q.config, json.loads(sys.argv[2]))
    q.create()()
"""


def start(root: Path, values: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(root), json.dumps(values)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def losses(run: Any) -> list[tuple[int, float]]:
    return [(m["step"], m["train/loss"]) for m in run.metrics() if "train/loss" in m]


def equal(left: Any, right: Any) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), left, right))


def wait_for(found: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not found() and process.poll() is None:
        time.sleep(0.005)


@pytest.fixture
def root(data_root: Path, tmp_path: Path) -> Path:
    if not (tmp_path / "data").exists():  # `trainer` uses the same folder
        (tmp_path / "data").symlink_to(data_root / "data")
    return tmp_path


def is_saving(root: Path) -> bool:
    return any(root.glob("runs/*/*/victim-*/checkpoints/.partial-*/state*"))


KILLS = int(os.environ.get("THESEUS_TEST_KILLS", "5"))


def test_a_run_that_is_killed_at_any_moment_goes_on_bit_for_bit(trainer: Make, root: Path) -> None:
    """Half of the kills fall into a save: a folder that is not complete yet is there."""
    values = {
        **TINY,
        "architecture": {**TINY["architecture"], "dropout": 0.1},
        "logging": {"report_interval": 1, "checkpoint_interval": 2},
        "training": {**TINY["training"], "tokens": 60 * 8 * 32},
    }
    whole = trainer("gpt/train/pretrain", "whole")
    load(whole.config, {**values, "logging": {"report_interval": 1, "checkpoint_interval": 100}})
    straight = whole()
    chance = random.Random(0)
    saving = 0
    for number in range(KILLS):
        process = start(root, values)
        wait_for(lambda: is_saving(root), process)
        if number % 2:
            time.sleep(chance.uniform(0, 0.5))
        saving += is_saving(root)
        process.kill()
        process.communicate()
    (run,) = [r for r in list_runs(root) if r.name == "victim"]
    last = trainer("gpt/train/pretrain", "victim")
    load(last.config, values)
    assert last().state == "finished"
    assert run.status()["attempt"] > 1
    assert saving >= KILLS // 2
    assert losses(run) == losses(straight)
    assert equal(last.state, whole.state)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_and_leaves_with_a_status_of_its_own(root: Path, number: int) -> None:
    recipe = root / "out.yaml"
    with quick(root) as q:
        q.build("gpt/train/pretrain", "victim")
        load(q.config, TINY)
        load(q.config, {"training.tokens": 4000 * 8 * 32, "logging.checkpoint_interval": 4000})
        q.save(recipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "theseus", "run", "victim", str(recipe), str(root)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: any(p.stat().st_size for p in root.glob("runs/*/*/*/metrics.jsonl")), process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 75, errors
    assert "its checkpoint is saved" in errors
    (run,) = list_runs(root)
    assert run.status()["exit"] == 75
    done = losses(run)[-1][0]
    assert [int(p.name) for p in run.checkpoints_folder.iterdir()] == [done]


class Held(Perplexity):
    """An evaluation during which somebody asks the run to stop."""

    def evaluate(self, measured: Any) -> dict[str, float]:
        if measured.step == 10 and not Held.asked:
            Held.asked = True
            os.kill(os.getpid(), signal.SIGTERM)
        return super().evaluate(measured)

    asked = False


class HeldTrainer(BaseTrainer[BaseTrainerConfig, Any]):
    """A trainer that is stopped while it validates at step 10."""

    from theseus.data.datasets import Sampling
    from theseus.model.models import GPT

    MODEL = GPT
    DATASET = (Sampling("text", 1.0, "pmd"),)
    EVALUATION = (Held,)


def test_a_validation_does_not_hold_up_a_stop_and_is_made_up_for(trainer: Make) -> None:
    changes = {
        "training__validation": True,
        "logging__validation_interval": 10,
        "training__tokens": 20 * 8 * 32,
    }
    Held.asked = True
    whole = trainer(HeldTrainer, "whole", **changes)()
    Held.asked = False
    with pytest.raises(StopRequested, match="step 10 of 20"):
        trainer(HeldTrainer, "held", **changes)()
    run = trainer(HeldTrainer, "held", **changes)()
    kept = [
        [(m["step"], m["val/loss"]) for m in r.metrics() if "val/loss" in m] for r in (whole, run)
    ]
    assert kept[0] == kept[1]
    assert [step for step, _ in kept[1]] == [10, 20]


class StopAt:
    """Opens runs that are asked to stop at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, job: Any, *, fresh: bool) -> Any:
        return self._opened(job, fresh)

    from contextlib import contextmanager

    @contextmanager
    def _opened(self, job: Any, fresh: bool) -> Iterator[Any]:
        with open_run(job, fresh=fresh, watchers=[]) as recorder:
            said = recorder.progress

            def progress(done: int, *rest: Any, **facts: Any) -> None:
                said(done, *rest, **facts)
                if done >= self.step:
                    recorder.ask_to_stop("interrupted")

            recorder.progress = progress  # type: ignore[method-assign]
            yield recorder


def stopped(made: Any, step: int) -> Any:
    made._open_run = StopAt(step)
    with pytest.raises(StopRequested):
        made()
    return made.latest


def test_the_best_score_is_that_of_the_checkpoint_that_is_gone_on_from(trainer: Make) -> None:
    changes = {
        "training__validation": True,
        "logging__validation_interval": 5,
        "optimization__lr": 0.1,  # so high that later losses are worse
        "optimization__decay_pct": 0.0,
    }
    whole = trainer(name="whole", **changes)()
    run = stopped(trainer(name="parts", **changes), 12)
    assert trainer(name="parts", **changes)().status()["best"] == whole.status()["best"]
    values = dict(m for m in zip(*run.series("val/loss"), strict=True))
    assert whole.status()["best"]["value"] == min(values.values())


def test_a_full_disk_keeps_the_earlier_checkpoint_and_says_so(root: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails in the middle of a save."""

    values = {**TINY, "logging": {"report_interval": 1, "checkpoint_interval": 10}}
    process = start(root, values)
    checkpoints = lambda: list(root.glob("runs/*/*/*/checkpoints/*/manifest.json"))  # noqa: E731
    wait_for(lambda: bool(checkpoints()), process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "could not be written" in errors
    assert "newest complete one is of step" in errors
    (run,) = list_runs(root)
    assert run.state == "failed"
    assert checkpoints()
    assert not list(root.glob("runs/*/*/*/checkpoints/.partial-*"))


def test_old_checkpoints_go_and_every_nth_stays(trainer: Make) -> None:
    run = trainer(logging__checkpoint_interval=5, logging__keep_last=2, logging__keep_every=10)()
    kept = sorted(int(path.name) for path in run.checkpoints_folder.iterdir())
    assert kept == [10, 20, 30, 35, 40]


def test_what_a_killed_process_left_is_removed(trainer: Make) -> None:
    run = stopped(trainer(), 10)
    for name in (".partial-12", ".removed-3"):
        (run.checkpoints_folder / name / "state").mkdir(parents=True)
    trainer()()
    assert not list(run.checkpoints_folder.glob(".*"))


# Finding checkpoints, going on from one, branching off.


def test_find_lists_complete_checkpoints_the_newest_run_first(
    trainer: Make, tmp_path: Path
) -> None:
    trainer(name="older", logging__checkpoint_interval=20)()
    run = stopped(trainer(name="newer", logging__checkpoint_interval=5), 12)
    (run.checkpoints_folder / "99").mkdir()  # without a manifest
    with quick(tmp_path) as q:
        found = q.find()
        assert [(s.run.name, s.step) for s in found] == [
            ("newer", run.status()["checkpoint"]),
            ("newer", 10),
            ("older", 40),
            ("older", 20),
        ]
        assert [s.step for s in q.find("older")] == [40, 20]
        assert list(q.find(project="another")) == []
    text = repr(found)
    assert text.splitlines()[0].split() == [
        "run",
        "id",
        "step",
        "tokens",
        "loss",
        "best",
        "validation",
        "saved",
    ]
    assert "10,240" in text  # 40 steps of 8 rows of 32 tokens
    assert "<td>newer</td>" in found._repr_html_()


def test_resume_goes_on_with_the_same_run(trainer: Make, tmp_path: Path) -> None:
    straight = trainer(name="whole")()
    run = stopped(trainer(name="parts"), 12)
    with quick(tmp_path) as q:
        newest = q.find("parts")[0]
    again = newest.resume().create()()
    assert again.folder == run.folder
    assert losses(again) == losses(straight)


def test_an_older_checkpoint_is_not_gone_on_from_over_the_newer(
    trainer: Make, tmp_path: Path
) -> None:
    trainer()()
    with quick(tmp_path) as q, pytest.raises(LineageError, match=r"gone on to step 40.*\.branch"):
        q.find()[1].resume()
    with quick(tmp_path) as q, pytest.raises(LineageError, match="no checkpoint was found"):
        _ = q.find("nothing")[0]


def test_a_branch_starts_from_the_state_and_leaves_its_origin_alone(
    trainer: Make, tmp_path: Path
) -> None:
    straight = trainer(name="whole")()
    with quick(tmp_path) as q:
        origin = q.find("whole")[1]
    assert origin.step == 20
    before = (origin.folder / "manifest.json").read_bytes()
    same = origin.branch("same").create()()
    assert losses(same) == losses(straight)[20:]
    colder = origin.branch("colder")
    colder.config.optimization.lr = 1e-4
    other = colder.create()()
    assert losses(other)[0] == losses(straight)[20]  # the loss before the first changed update
    assert losses(other)[1:] != losses(straight)[21:]
    assert len({run.folder for run in (straight, same, other)}) == 3
    assert (origin.folder / "manifest.json").read_bytes() == before


def test_a_branch_with_another_model_is_refused_unless_it_may_be_partial(
    trainer: Make, tmp_path: Path
) -> None:
    made = trainer()
    made()
    with quick(tmp_path) as q:
        origin = q.find()[1]
    wider = origin.branch("wider")
    wider.config.architecture.intermediate_size = 64
    with pytest.raises(ConfigError, match=r"start_partial(?s:.)*mlp/up: float32\[2,32,128\]"):
        wider.create()()
    wider = origin.branch("wider", partial=True)
    wider.config.architecture.intermediate_size = 64
    wider.config.training.tokens = 21 * 8 * 32
    job = wider.create()
    run = job()
    assert losses(run)[0][0] == 21
    warning = next(e for e in run.events() if e["kind"] == "warning" and "mlp/up" in e["message"])
    assert "not from the checkpoint" in warning["message"]


def test_a_branch_that_has_no_steps_left_is_refused(trainer: Make, tmp_path: Path) -> None:
    trainer()()
    with quick(tmp_path) as q:
        ended = q.find()[0].branch("more")
    with pytest.raises(ConfigError, match=r"set training.tokens to more than 10,240"):
        ended.create()()
    with pytest.raises(ConfigError, match=r"no complete checkpoint; those in .*: none"):
        trainer(training__start_from=str(tmp_path / "7"))()


def test_the_averaged_weights_are_the_average(trainer: Make) -> None:
    made = trainer(
        optimization__ema=0.5,
        training__tokens=3 * 8 * 32,
        logging__checkpoint_interval=1,
        logging__keep_last=9,
        training__validation=True,
    )
    run = made()
    with quick(run.folder.parents[3]) as q:
        states = [trainer_state(made, s.step) for s in reversed(q.find())]
    name = lambda tree: np.asarray(tree["final_norm"]["scale"], np.float64)  # noqa: E731
    expected = np.ones(32)  # the initial weights
    for step, state in enumerate(states):
        kept = min(0.5, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * name(state.params)
    np.testing.assert_allclose(name(made.ema_params), expected, rtol=1e-6)
    assert "val/ema_loss" in run.metrics()[-1]


def trainer_state(made: Any, step: int) -> Any:
    from theseus.training.checkpoint import Checkpoints

    return Checkpoints(made.latest.checkpoints_folder).restore(step, made.abstract_state)


def test_a_failure_in_the_background_ends_the_run_at_the_next_step(
    trainer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(logging__checkpoint_interval=10, training__tokens=400 * 8 * 32)
    real = Path.rename

    def broken(self: Path, target: Any) -> Any:
        if self.name == ".partial-20":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(CheckpointError, match=r"step 20 .*No space left.* is of step 10"):
        made()
    assert losses(made.latest)[-1][0] <= 30  # before the next save, or when it is about to begin


def test_a_window_of_steps_is_recorded_for_a_viewer(trainer: Make) -> None:
    run = trainer(logging__profile_start=3, logging__profile_steps=2, training__tokens=6 * 8 * 32)()
    (event,) = [e for e in run.events() if e["kind"] == "profile"]
    assert event["step"] == 4
    names = [path.name for path in Path(event["folder"]).rglob("*") if path.is_file()]
    assert any(name.endswith(".xplane.pb") for name in names)
    assert any(name.endswith(".trace.json.gz") for name in names)
