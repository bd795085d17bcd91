"""The state that a run begins with: its own checkpoint's, another run's, or a new one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from theseus.config import ConfigError
from theseus.job import Recorder
from theseus.training.checkpoint import Checkpoints
from theseus.training.state import TrainState, initial_state

if TYPE_CHECKING:
    from theseus.training.base import BaseTrainer

KEY = "training.start_from"

# Compiled to run once: optimising would take ten times as long as running it.
RUNS_ONCE = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


class Start(NamedTuple):
    """Where a run begins; `manifest` is that of its own checkpoint, None when it has none."""

    state: TrainState
    step: int
    manifest: Mapping[str, Any] | None = None


def check_start(trainer: BaseTrainer[Any, Any]) -> None:
    """Refuse a `training.start_from` that cannot be started from, naming what can.

    Raises
    ------
    ConfigError
        When there is no such checkpoint, no step is left after it, or it does not fit.
    """
    if trainer.args.start_from is None:
        return
    folder, plan = Path(trainer.args.start_from).expanduser(), trainer.plan
    checkpoints = Checkpoints(folder.parent)
    steps = checkpoints.steps()
    if not folder.name.isdigit() or int(folder.name) not in steps:
        beside = ", ".join(map(str, steps)) if steps else "none"
        msg = f"{KEY} = {folder}: no complete checkpoint; those in {folder.parent}: {beside}"
        raise ConfigError(msg, KEY)
    step = int(folder.name)
    if step >= plan.steps:
        msg = (
            f"{KEY} is at step {step:,}, and training.tokens = {trainer.args.tokens:,} are only "
            f"{plan.steps:,} steps; set training.tokens to more than "
            f"{step * plan.tokens_per_step:,}"
        )
        raise ConfigError(msg, "training.tokens")
    differences = checkpoints.differences(step, trainer.abstract_state)
    if differences and not trainer.args.start_partial:
        told = "\n".join(f"  {line}" for line in differences.values())
        msg = (
            f"{KEY} = {folder} was saved from another model or optimizer; "
            f"training.start_partial=true takes what fits:\n{told}"
        )
        raise ConfigError(msg, KEY)


def first_state(
    trainer: BaseTrainer[Any, Any], checkpoints: Checkpoints, recorder: Recorder
) -> Start:
    """Return the state of the run's newest checkpoint; without one, that of its origin or a new one."""
    steps = checkpoints.steps()
    if steps:
        state = checkpoints.restore(steps[-1], trainer.abstract_state)
        return Start(state, steps[-1], checkpoints.manifest(steps[-1]))
    if trainer.args.start_from is not None:
        return _branched(trainer, Path(trainer.args.start_from).expanduser(), recorder)
    return Start(new_state(trainer), 0)


def _branched(trainer: BaseTrainer[Any, Any], folder: Path, recorder: Recorder) -> Start:
    checkpoints, step = Checkpoints(folder.parent), int(folder.name)
    recorder.event("branched", checkpoint=str(folder), step=step)
    missing = checkpoints.differences(step, trainer.abstract_state)
    if not missing:
        return Start(checkpoints.restore(step, trainer.abstract_state), step)
    recorder.event("warning", message="not from the checkpoint: " + "; ".join(missing.values()))
    return Start(checkpoints.restore_fitting(step, new_state(trainer)), step)


def new_state(trainer: BaseTrainer[Any, Any]) -> TrainState:
    """Return the state before the first step, made where it is going to be."""
    make = partial(initial_state, trainer.training, trainer.args.block_size)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, trainer.abstract_state)
    made: TrainState = jax.jit(make, out_shardings=shardings, compiler_options=RUNS_ONCE)()
    return made
