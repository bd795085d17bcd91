"""The base of all trainers: seven class fields, and what they mean together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import flax.linen as nn
import jax

from theseus.config import ConfigError, configuration, configure
from theseus.data.datasets import Sampling
from theseus.data.mixture import Mixture
from theseus.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer
from theseus.errors import UserError
from theseus.hardware.chips import chip_by_device_name
from theseus.hardware.fitting import Workload
from theseus.hardware.memory import MemoryEstimate, in_words, machine_memory
from theseus.hardware.sharding import MeshShape
from theseus.job import Job, Recorder
from theseus.training.checkpoint import Checkpoints, check_installed
from theseus.training.config import BaseTrainerConfig
from theseus.training.estimate import estimate, workload
from theseus.training.extras import Analysis, Evaluation
from theseus.training.flops import CONVENTION, flops_per_token, matrix_parameters
from theseus.training.loop import Loop
from theseus.training.loss import MicroBatches
from theseus.training.optimizers import AdamW
from theseus.training.placement import Placement, axes_of, logical_axes, path_of
from theseus.training.plan import TrainingPlan, plan
from theseus.training.schedules import WSD, LearningRate
from theseus.training.starting import check_start, first_state
from theseus.training.state import (
    Training,
    TrainState,
    boxed_parameters,
    initial_state,
    make_optimizer,
    train_step,
)

__all__ = ["BaseTrainer", "BaseTrainerConfig", "Sampling"]

C = TypeVar("C", bound=BaseTrainerConfig)
M = TypeVar("M", bound=nn.Module)

STATE_SHARE = 0.95  # of the memory that may be state, so that something is left to compute in


class BaseTrainer(Job, Generic[C, M]):
    """Train a model on token files: the base of all trainers.

    A subclass sets what differs of seven fields:

    MODEL
        The Flax module, with the hooks of `theseus.model.models.GPT`.
    CONFIG
        A dataclass of fields: `BaseTrainerConfig` or a subclass of it.
    DATASET
        What to train on: a dataset class, the key of one, a `Sampling`, or a list of these.
    EVALUATION
        Evaluation classes, run with every validation.
    ANALYSIS
        Analysis classes, run with every checkpoint; what they return is kept in `results/`.
    SCHEDULE
        A dataclass of fields that makes the learning rate (`theseus.training.schedules`).
    OPTIMIZER
        A dataclass of fields that makes the optimizer (`theseus.training.optimizers`).
    """

    MODEL: ClassVar[type[nn.Module]]
    CONFIG: ClassVar[type[BaseTrainerConfig]] = BaseTrainerConfig
    DATASET: ClassVar[Any] = None
    EVALUATION: ClassVar[Sequence[type[Evaluation]]] = ()
    ANALYSIS: ClassVar[Sequence[type[Analysis]]] = ()
    SCHEDULE: ClassVar[type[Any]] = WSD
    OPTIMIZER: ClassVar[type[Any]] = AdamW

    _state: TrainState | None = None

    @classmethod
    def configs(cls) -> tuple[type, ...]:
        """Return the classes whose fields make up the configuration."""
        sources = [sampling.dataset for sampling in samplings(cls.DATASET)]
        own = (cls.MODEL, cls.CONFIG, TokenizerConfig, cls.SCHEDULE, cls.OPTIMIZER)
        parts = [*sources, *cls.EVALUATION, *cls.ANALYSIS]
        theirs = [getattr(part, "CONFIG", None) for part in parts]
        return tuple(dict.fromkeys([*own, *(config for config in theirs if config is not None)]))

    # What the configuration determines, made when it is first asked for.

    @cached_property
    def args(self) -> C:
        """The trainer's own part of the configuration."""
        with configuration(self.config):
            return configure(self.CONFIG)  # type: ignore[return-value]

    @cached_property
    def model(self) -> M:
        """The model: its value holds the whole architecture."""
        with configuration(self.config):
            return configure(self.MODEL)  # type: ignore[return-value]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the token files must have been written with."""
        with configuration(self.config):
            return load_tokenizer(configure(TokenizerConfig), self.root)

    @cached_property
    def placement(self) -> Placement:
        """The devices of all hosts, and what each of them holds."""
        return Placement.over(self.sharding)

    @cached_property
    def mesh_shape(self) -> MeshShape:
        """How many devices there are along each axis of the mesh; `estimate` may assume others."""
        return self.placement.shape

    @cached_property
    def plan(self) -> TrainingPlan:
        """Steps, rows and micro-batches."""
        return plan(
            tokens=self.args.tokens,
            batch_size=self.args.batch_size,
            block_size=self.args.block_size,
            per_device_batch_size=self.args.per_device_batch_size,
            devices=self.mesh_shape.data,
        )

    @cached_property
    def mixture(self) -> Mixture:
        """The token files, as batches."""
        with configuration(self.config):
            return Mixture(
                samplings(self.datasets()),
                root=self.root,
                block_size=self.args.block_size,
                batch_size=self.args.batch_size,
                seed=self.args.seed,
                separate_documents=self.args.separate_documents,
                suffix=self.args.suffix,
                tokenizer=self.tokenizer,
            )

    @cached_property
    def learning_rate(self) -> LearningRate:
        """Step → learning rate."""
        with configuration(self.config):
            rate: LearningRate = configure(self.SCHEDULE).build(self.plan.steps)
            return rate

    @cached_property
    def boxed(self) -> Any:
        """The shapes of the parameters, each with the names of its axes; nothing is allocated."""
        make = partial(boxed_parameters, self.model, self.args.seed, self.args.block_size)
        with configuration(self.config):
            return jax.eval_shape(make)

    @cached_property
    def training(self) -> Training:
        """What all steps have in common."""
        with configuration(self.config):
            optimizer = configure(self.OPTIMIZER)
        return Training(
            self.model,
            make_optimizer(optimizer, self.learning_rate, self.boxed),
            self.learning_rate,
            self.args.seed,
            dropout=getattr(self.model, "dropout", 0.0) > 0,
            ema=self.args.ema,
        )

    @cached_property
    def axes(self) -> Any:
        """The names of the axes of each parameter, by its path."""
        return logical_axes(self.boxed)

    @cached_property
    def flops_per_token(self) -> float | None:
        """The arithmetic of training on one token; None for a model without the usual sizes."""
        sizes = [getattr(self.model, name, None) for name in ("n_layers", "n_embd", "block_size")]
        if not all(isinstance(size, int) for size in sizes):
            return None
        leaves = jax.tree_util.tree_leaves_with_path(nn.meta.unbox(self.boxed))
        arrays = [
            (path_of(path)[-1], leaf.shape, axes_of(path, leaf, self.axes)) for path, leaf in leaves
        ]
        return flops_per_token(matrix_parameters(arrays), *sizes)  # type: ignore[arg-type]

    @cached_property
    def peak(self) -> float | None:
        """FLOP/s that all devices together can reach, from the chip table; None for unknown ones."""
        devices = self.placement.mesh.devices.ravel()
        chip = chip_by_device_name(devices[0].device_kind)
        found = chip and chip.peak_flops(str(getattr(self.model, "dtype", "float32")))
        return found * len(devices) if found else None

    @cached_property
    def gradient_shardings(self) -> Any:
        """How each gradient is spread over devices."""
        return self.placement.optimizer(nn.meta.unbox(self.boxed), self.axes)

    @cached_property
    def abstract_state(self) -> TrainState:
        """The shape, dtype and sharding of everything in the state; nothing is allocated."""
        shapes = jax.eval_shape(partial(initial_state, self.training, self.args.block_size))
        shardings = TrainState(
            self.placement.everywhere(),  # type: ignore[arg-type]
            self.placement.parameters(shapes.params, self.axes),
            self.placement.optimizer(shapes.opt_state, self.axes),
            self.placement.optimizer(shapes.ema, self.axes),
        )
        placed: TrainState = jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            shapes,
            shardings,
        )
        return placed

    def datasets(self) -> Any:
        """Return what to train on; a subclass may decide by its configuration."""
        return self.DATASET

    @property
    def params(self) -> Any:
        """The trained parameters: of this object's run, or of the newest checkpoint of its run.

        Raises
        ------
        UserError
            When nothing has been trained yet.
        """
        return self.state.params

    @property
    def ema_params(self) -> Any:
        """The running average of the parameters; there with `optimization.ema`.

        Raises
        ------
        UserError
            When nothing has been trained yet, or no average was kept.
        """
        if self.state.ema is None:
            msg = "no average of the weights was kept: set optimization.ema, for example to 0.999"
            raise UserError(msg)
        return self.state.ema

    @property
    def state(self) -> TrainState:
        """The state at the end of this object's run, or of the newest checkpoint of its run.

        Raises
        ------
        UserError
            When nothing has been trained yet.
        """
        if self._state is None and self.latest is not None:
            checkpoints = Checkpoints(Path(self.latest.checkpoints_folder))
            if checkpoints.steps():
                newest = checkpoints.steps()[-1]
                self._state = checkpoints.restore(newest, self.abstract_state)
        if self._state is None:
            msg = "there are no trained parameters yet: call the trainer first, as in `trainer()`"
            raise UserError(msg)
        return self._state

    # Refusing what cannot work, before anything is allocated.

    def check(self) -> None:
        """Refuse what cannot be trained, naming the keys and values that would work."""
        check_installed()
        check_start(self)
        if hasattr(self.model, "check"):
            self.model.check()
        _ = self.plan, self.learning_rate
        self._check_vocabulary()
        self.placement.check(nn.meta.unbox(self.boxed), self.axes)
        estimated = estimate(self)
        # Only what is exact is a reason to refuse: an activation may turn out smaller.
        needed = estimated.state + estimated.gradients
        available = _memory_limit()
        if needed > STATE_SHARE * available:
            count = sum(math.prod(p.shape) for p in jax.tree.leaves(self.abstract_state.params))
            msg = (
                f"{count:,} parameters need {in_words(needed)} for weights, gradients and "
                f"optimizer state alone; this machine has {in_words(available)}. Lower "
                "architecture.n_embd, architecture.n_layers or architecture.vocab_size"
            )
            raise ConfigError(msg, "architecture.n_embd")

    def _check_vocabulary(self) -> None:
        size = getattr(self.model, "vocab_size", None)
        needed = max(self.tokenizer.vocab_size, self.mixture.max_token_id + 1)
        if size is not None and size < needed:
            msg = (
                f"architecture.vocab_size = {size} is smaller than the tokenizer's vocabulary; "
                f"set it to {needed} or more ({-(-needed // 128) * 128} is a multiple of 128)"
            )
            raise ConfigError(msg, "architecture.vocab_size")

    def estimate(self, devices: int | None = None, *, backend: str | None = None) -> MemoryEstimate:
        """Return what training will need on each device, by part; nothing is allocated.

        Parameters
        ----------
        devices
            How many, over all nodes; None: those of this machine.
        backend
            "cpu", "gpu" or "tpu": decides what is computed in, and how attention works. None: as
            here.
        """
        if devices is not None:
            other = self._on(MeshShape.of(self.sharding, devices))
            return estimate(other, backend=backend)
        return estimate(self, backend=backend)

    def workload(self) -> Workload:
        """Return what a step is made of, to be fitted to any hardware; nothing is allocated.

        No device is looked at, so that it can be asked for in a notebook before the GPU is used.
        """
        return workload(self._on(MeshShape()))

    def _on(self, mesh: MeshShape) -> Self:
        other = type(self)(
            self.config,
            root=self.root,
            identity=self.identity,
            open_run=self._open_run,
            sharding=self.sharding,
        )
        other.mesh_shape = mesh
        return other

    def lower(self, batch: MicroBatches) -> jax.stages.Lowered:
        """Return one step, traced for batches such as this one (arrays or shapes; (A, R, T))."""
        everywhere = self.placement.everywhere()
        shardings = jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)
        step = jax.jit(
            partial(train_step, self.training, gradients=self.gradient_shardings),
            donate_argnums=0,
            out_shardings=(shardings, everywhere),
        )
        with self.placement.active():
            return step.lower(self.abstract_state, batch)

    # The loop.

    def run(self, recorder: Recorder) -> None:
        """Train from the newest checkpoint, or from the first step, to the last."""
        checkpoints = Checkpoints(
            recorder.folder / "checkpoints",
            keep_last=self.args.keep_last,
            keep_every=self.args.keep_every,
        )
        checkpoints.clear_leftovers()
        loop = Loop(self, recorder, checkpoints)
        start = first_state(self, checkpoints, recorder)
        recorder.event("started", **self._facts(start.step))
        for message in self._warnings():
            recorder.event("warning", message=message)
        if start.manifest is not None:
            loop.resume(start.step, start.manifest)
            recorder.event("resumed", step=start.step, best=start.manifest.get("best"))
        try:
            with self.placement.active():
                self._state = loop.run(start.state, start.step)
        finally:
            checkpoints.wait()

    def _warnings(self) -> list[str]:
        """Return what the user should know before the first step."""
        notes = self.mixture.notes()
        if self.args.validation and not self.mixture.has_validation:
            notes.append(
                "training.validation is on, but no rows are held out: tokenize with data.val_pct "
                "above 0, or set training.validation=false"
            )
        return notes

    def _facts(self, step: int) -> dict[str, Any]:
        params = jax.tree.leaves(self.abstract_state.params)
        return {
            "step": step,
            "steps": self.plan.steps,
            "parameters": sum(math.prod(p.shape) for p in params),
            "tokens_per_step": self.plan.tokens_per_step,
            "accumulation": self.plan.accumulation,
            "epochs": round(self.mixture.epochs(self.plan.steps), 4),
            "devices": self.placement.shape.devices,
            "mesh": str(self.placement.shape),
            "sharding": str(self.sharding),
            "flops_per_token": self.flops_per_token,
            "mfu_convention": CONVENTION,
            "backend": jax.default_backend(),
        }


def samplings(datasets: Any) -> list[Sampling]:
    """Return what DATASET means: one `Sampling` per dataset, packed and equal by default."""
    if datasets is None:
        return []
    if not isinstance(datasets, list | tuple):
        datasets = [datasets]
    return [item if isinstance(item, Sampling) else Sampling(item) for item in datasets]


def _memory_limit() -> int:
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(stats.get("bytes_limit") or machine_memory())
