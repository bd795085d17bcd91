"""Run by tests in a process with 8 CPU devices, or as one of two with 4 each; prints JSON.

python -m tests.training.mesh combinations ROOT     losses and bytes of each policy
python -m tests.training.mesh resume ROOT           a run that goes on over other meshes
python -m tests.training.mesh process ROOT PORT N   process N of two
"""

from __future__ import annotations

import itertools
import json
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
from jax.experimental import multihost_utils

from theseus.config import load
from theseus.hardware.sharding import ShardingPolicy
from theseus.job import StopRequested
from theseus.quick import quick
from theseus.runs import open_run
from theseus.training.feed import micro_batches, on_devices
from theseus.training.placement import Placement
from theseus.training.starting import new_state

STEPS = 20
VALUES: dict[str, Any] = {
    "architecture": {
        "n_embd": 32,
        "n_layers": 2,
        "n_head": 8,
        "block_size": 32,
        "vocab_size": 264,
        "dtype": {"activation": "float32"},
    },
    "training": {
        "batch_size": 8,
        "per_device_batch_size": 1,
        "tokens": STEPS * 8 * 32,
        "validation": False,
    },
    "optimization": {"lr": 3e-3},
    "logging": {"report_interval": 1, "checkpoint_interval": 100},
    "data": {"dataset": "text"},
}


def made(root: str, name: str, policy: ShardingPolicy, **changes: Any) -> Any:
    with quick(root) as q:
        q.build("gpt/train/pretrain", name)
        q.shard(policy.tp, fsdp=policy.fsdp, zero=policy.zero)
        load(q.config, VALUES)
        load(q.config, {key.replace("__", "."): value for key, value in changes.items()})
        return q.create()


def steps_of(trainer: Any, state: Any) -> tuple[list[float], int]:
    """Return the losses of all steps from `state` on, and the bytes that one device holds."""
    rows = trainer.placement.rows(before=1)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, trainer.abstract_state)
    state = jax.device_put(state, shardings)
    held = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(state))
    compiled, losses = None, []
    for step in range(STEPS):
        host = micro_batches(trainer.mixture, trainer.plan, step)
        batch = on_devices(host, rows, trainer.plan.rows, 1)
        compiled = compiled or trainer.lower(batch).compile()
        state, metrics = compiled(state, batch)
        losses.append(float(metrics.loss))
    return losses, held


def one_device(trainer: Any) -> Any:
    trainer.placement = Placement.over(ShardingPolicy(), jax.devices()[:1])
    return trainer


def alone(root: str) -> list[Any]:
    """Return the losses and the bytes of one device."""
    # Eight rows on one device and one on each of eight: the step is the same.
    trainer = one_device(made(root, "alone", ShardingPolicy(), training__per_device_batch_size=8))
    return list(steps_of(trainer, new_state(trainer)))


def combinations(root: str) -> list[Any]:
    """Return the losses and the bytes per device of one device and of every policy on eight."""
    initial = jax.device_get(new_state(one_device(made(root, "initial", ShardingPolicy()))))
    found = [("alone", *alone(root))]
    programs: dict[Any, Any] = {}
    for tp, fsdp, zero in itertools.product((1, 2, 4, 8), (False, True), (False, True)):
        trainer = made(root, "mesh", ShardingPolicy(tp, fsdp, zero))
        trainer.check()
        # Where two policies place every array alike they are one program: it is run once.
        places = [str(x.sharding) for x in jax.tree.leaves(trainer.abstract_state)]
        gradients = [str(s) for s in jax.tree.leaves(trainer.gradient_shardings)]
        program = json.dumps([trainer.placement.shape.data, places, gradients])
        if program not in programs:
            programs[program] = steps_of(trainer, initial)
        found.append(([tp, fsdp, zero], *programs[program]))
    return found


# A micro-batch is all 8 rows on every mesh: what dropout draws depends on its rows.
ELASTIC = {"architecture__dropout": 0.1, "training__per_device_batch_size": None}


def resume(root: str) -> list[Any]:
    """Go on at steps 5 and 10 of a run over another mesh each time; return its losses."""
    run = None
    for policy, stop in (
        (ShardingPolicy(), 5),
        (ShardingPolicy(2, zero=True), 10),
        (ShardingPolicy(4, fsdp=True), 99),
    ):
        trainer = made(root, "elastic", policy, **ELASTIC)
        trainer._open_run = stopping_at(stop)
        try:
            trainer()
        except StopRequested:
            run = trainer.latest
    assert run is not None
    return [[m["step"], m["train/loss"]] for m in run.metrics()]


def straight(root: str) -> list[Any]:
    trainer = made(root, "straight", ShardingPolicy(), **ELASTIC)
    return [[m["step"], m["train/loss"]] for m in trainer().metrics()]


def stopping_at(step: int) -> Any:
    @contextmanager
    def opened(job: Any, *, fresh: bool) -> Any:
        with open_run(job, fresh=fresh, watchers=[]) as recorder:
            said = recorder.progress

            def progress(done: int, *rest: Any, **facts: Any) -> None:
                said(done, *rest, **facts)
                if done >= step:
                    recorder.ask_to_stop("interrupted")

            recorder.progress = progress  # type: ignore[method-assign]
            yield recorder

    return opened


class Silent:
    """The recorder of a process that is not the first: it keeps nothing."""

    finished, attempt, run = False, 1, None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stopping: str | None = None

    def event(self, kind: str, **facts: Any) -> None: ...

    def report(self, step: int, values: Any, *, tokens: int = 0) -> None: ...

    def progress(self, done: Any, total: Any, **facts: Any) -> None: ...


def process(root: str, port: str, number: str) -> list[Any]:
    """Be one of two processes: stop at step 5, told to the second one only; then go on."""
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(number))
    policy = ShardingPolicy(2, fsdp=True)
    first = jax.process_index() == 0
    for stop in (5, 99):
        trainer = made(root, "two", policy)
        if first:
            trainer._open_run = opened_first
        else:
            trainer._open_run = silent_stopping_at(Path(root), stop)
        with suppress(StopRequested):
            trainer()
    multihost_utils.sync_global_devices("end")
    if not first:
        return []
    return [[m["step"], m["train/loss"]] for m in trainer.latest.metrics()]


@contextmanager
def opened_first(job: Any, *, fresh: bool) -> Any:
    with open_run(job, fresh=fresh, watchers=[]) as recorder:
        multihost_utils.sync_global_devices("opened")
        yield recorder


def silent_stopping_at(root: Path, step: int) -> Any:
    @contextmanager
    def opened(job: Any, *, fresh: bool) -> Any:
        multihost_utils.sync_global_devices("opened")
        (folder,) = root.glob("runs/*/*/two-*")
        recorder = Silent(folder)

        def progress(done: int, total: Any, **facts: Any) -> None:
            if done >= step:
                recorder.stopping = "terminated"

        recorder.progress = progress  # type: ignore[method-assign]
        yield recorder

    return opened


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
