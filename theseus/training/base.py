"""The training loop, and the seven class fields that a trainer is made of."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from theseus.config import ConfigError, configuration, configure
from theseus.data.datasets import Sampling
from theseus.data.mixture import Mixture
from theseus.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer
from theseus.errors import UserError
from theseus.hardware.memory import array_bytes, in_words, machine_memory
from theseus.job import Job, Recorder, StopRequested
from theseus.training.checkpoint import Checkpoints
from theseus.training.config import BaseTrainerConfig
from theseus.training.extras import Analysis, Evaluation, Measured
from theseus.training.feed import ahead, in_order, micro_batches
from theseus.training.loss import MicroBatches, batch_totals
from theseus.training.meter import Meter
from theseus.training.optimizers import AdamW
from theseus.training.plan import TrainingPlan, plan
from theseus.training.schedules import WSD, LearningRate
from theseus.training.state import (
    StepMetrics,
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

IN_FLIGHT = 2  # steps that may be under way at once: enough to keep a device busy
RUNS_ONCE = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
STATE_SHARE = 0.95  # of the memory that may be state, so that something is left to compute in


class DivergedError(UserError):
    """The loss is no longer a number."""


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
    def plan(self) -> TrainingPlan:
        """Steps, rows and micro-batches."""
        return plan(
            tokens=self.args.tokens,
            batch_size=self.args.batch_size,
            block_size=self.args.block_size,
            per_device_batch_size=self.args.per_device_batch_size,
            devices=jax.device_count(),
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
    def _training(self) -> Training:
        with configuration(self.config):
            boxed = jax.eval_shape(
                lambda: boxed_parameters(self.model, self.args.seed, self.args.block_size)
            )
            optimizer = configure(self.OPTIMIZER)
        transformation = make_optimizer(optimizer, self.learning_rate, boxed)
        dropout = getattr(self.model, "dropout", 0.0) > 0
        return Training(self.model, transformation, self.args.seed, dropout)

    @cached_property
    def _abstract_state(self) -> TrainState:
        shapes = jax.eval_shape(partial(initial_state, self._training, self.args.block_size))
        replicated = NamedSharding(self._mesh, PartitionSpec())
        placed: TrainState = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated), shapes
        )
        return placed

    @cached_property
    def _mesh(self) -> Mesh:
        return Mesh(np.asarray(jax.devices()), ("data",))

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
        if self._state is None and self.latest is not None:
            checkpoints = Checkpoints(Path(self.latest.checkpoints_folder))
            if checkpoints.steps():
                newest = checkpoints.steps()[-1]
                self._state = checkpoints.restore(newest, self._abstract_state)
        if self._state is None:
            msg = "there are no trained parameters yet: call the trainer first, as in `trainer()`"
            raise UserError(msg)
        return self._state.params

    # Refusing what cannot work, before anything is allocated.

    def check(self) -> None:
        """Refuse what cannot be trained, naming the keys and values that would work."""
        if hasattr(self.model, "check"):
            self.model.check()
        _ = self.plan, self.learning_rate
        self._check_vocabulary()
        needed = array_bytes(jax.tree.leaves(self._abstract_state))
        # Gradients are as large as the parameters, and alive at the same time.
        needed += array_bytes(jax.tree.leaves(self._abstract_state.params))
        available = _memory_limit()
        if needed > STATE_SHARE * available:
            count = sum(math.prod(p.shape) for p in jax.tree.leaves(self._abstract_state.params))
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

    # The loop.

    def run(self, recorder: Recorder) -> None:
        """Train from the newest checkpoint, or from the first step, to the last."""
        checkpoints = Checkpoints(recorder.folder / "checkpoints", keep_last=self.args.keep_last)
        step = checkpoints.steps()[-1] if checkpoints.steps() else 0
        state = self._first_state(checkpoints, step)
        recorder.event("started", **self._facts(step))
        for message in self._warnings():
            recorder.event("warning", message=message)
        if step:
            recorder.event("resumed", step=step)
        loop = _Loop(self, recorder, checkpoints)
        try:
            self._state = loop.run(state, step)
        finally:
            checkpoints.wait()

    def _first_state(self, checkpoints: Checkpoints, step: int) -> TrainState:
        if step:
            restored: TrainState = checkpoints.restore(step, self._abstract_state)
            return restored
        replicated = NamedSharding(self._mesh, PartitionSpec())
        make = partial(initial_state, self._training, self.args.block_size)
        # Compiled to run once: optimising would take ten times as long as running it.
        return jax.jit(make, out_shardings=replicated, compiler_options=RUNS_ONCE)()

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
        params = jax.tree.leaves(self._abstract_state.params)
        return {
            "step": step,
            "steps": self.plan.steps,
            "parameters": sum(math.prod(p.shape) for p in params),
            "tokens_per_step": self.plan.tokens_per_step,
            "accumulation": self.plan.accumulation,
            "epochs": round(self.mixture.epochs(self.plan.steps), 4),
            "devices": jax.device_count(),
            "backend": jax.default_backend(),
        }


class _Pending(NamedTuple):
    """A step that has been handed to the device."""

    step: int
    metrics: StepMetrics


class _Loop:
    """One execution of the loop: what its parts share while it lasts."""

    def __init__(
        self, trainer: BaseTrainer[Any, Any], recorder: Recorder, checkpoints: Checkpoints
    ) -> None:
        self.trainer = trainer
        self.args = trainer.args
        self.plan = trainer.plan
        self.recorder = recorder
        self.checkpoints = checkpoints
        self.meter = Meter(trainer.plan.tokens_per_step)
        self.pending: deque[_Pending] = deque()
        self.facts: dict[str, float] = {}
        self.rows = NamedSharding(trainer._mesh, PartitionSpec(None, "data", None))
        self._totals = jax.jit(partial(batch_totals, trainer.model))
        self._saved_step = -1

    def run(self, state: TrainState, step: int) -> TrainState:
        """Take the state from `step` to the last step of the plan."""
        batches = ahead(self._batch, step, self.plan.steps)
        compiled = None
        self._progress(step)
        try:
            for batch in batches:
                if compiled is None:
                    compiled = self._compile(state, batch)
                    self.meter.start()
                state, metrics = compiled(state, batch)
                step += 1
                self.pending.append(_Pending(step, metrics))
                self._settle(IN_FLIGHT - 1)
                state = self._at_intervals(state, step)
                if self.recorder.stopping:
                    self._stop(state, step)
        finally:
            batches.close()  # type: ignore[attr-defined]
        self._settle(0)
        return state

    def _batch(self, step: int) -> MicroBatches:
        host = micro_batches(
            self.trainer.mixture, self.plan, step, jax.process_index(), jax.process_count()
        )
        return self._on_devices(host, self.rows)

    @staticmethod
    def _on_devices(host: MicroBatches, sharding: NamedSharding) -> MicroBatches:
        placed: MicroBatches = jax.tree.map(
            lambda part: jax.make_array_from_process_local_data(sharding, part), host
        )
        return placed

    def _compile(self, state: TrainState, batch: MicroBatches) -> Any:
        function = jax.jit(partial(train_step, self.trainer._training), donate_argnums=0)
        with self.meter.compiling():
            return function.lower(state, batch).compile()

    def _settle(self, at_most: int) -> None:
        """Wait until no more than `at_most` steps are under way; read what the others tell."""
        while len(self.pending) > at_most:
            step, metrics = self.pending.popleft()
            loss = float(metrics.loss)
            self.meter.step()
            if not math.isfinite(loss):
                self._diverged(step, loss)
            rate = float(self.trainer.learning_rate(step - 1))
            self.facts.update({"loss": loss, "lr": rate})
            if step % self.args.report_interval == 0 or step == self.plan.steps:
                self._report(step, metrics, rate)
            self._progress(step)

    def _report(self, step: int, metrics: StepMetrics, rate: float) -> None:
        speed = self.meter.tokens_per_second()
        values = {
            "train/loss": self.facts["loss"],
            "train/lr": rate,
            "train/grad_norm": float(metrics.grad_norm),
            "train/targets": int(metrics.targets),
        }
        if speed is not None:
            self.facts["tokens_per_second"] = values["train/tokens_per_second"] = speed
        self.recorder.report(step, values, tokens=step * self.plan.tokens_per_step)

    def _progress(self, step: int) -> None:
        self.recorder.progress(step, self.plan.steps, unit="steps", **self.facts)

    def _at_intervals(self, state: TrainState, step: int) -> TrainState:
        last = step == self.plan.steps
        validate = last or step % self.args.validation_interval == 0
        if validate and self._wants_validation():
            self._settle(0)
            with self.meter.paused():
                self._validate(state, step)
        if last or step % self.args.checkpoint_interval == 0:
            self._settle(0)  # a loss that is not a number is noticed before it is saved
            with self.meter.paused():
                self._save(state, step)
        return state

    def _wants_validation(self) -> bool:
        held_out = self.args.validation and self.trainer.mixture.has_validation
        return held_out or (self.args.evaluate and bool(self.trainer.EVALUATION))

    def _validate(self, state: TrainState, step: int) -> None:
        values: dict[str, float] = {}
        if self.args.validation and self.trainer.mixture.has_validation:
            total, count = self._totals_over(self._validation_batches(), state.params)
            values["val/loss"] = self.facts["val_loss"] = total / max(count, 1)
        if self.args.evaluate:
            for evaluation, measured in self._extras(self.trainer.EVALUATION, state, step):
                found = evaluation.evaluate(measured)
                values |= {f"eval/{name}": value for name, value in found.items()}
        self.recorder.report(step, values, tokens=step * self.plan.tokens_per_step)
        self._progress(step)

    def _validation_batches(self) -> Iterable[MicroBatches]:
        rows = NamedSharding(self.trainer._mesh, PartitionSpec("data", None))
        found = self.trainer.mixture.validation(self.plan.rows, limit=self.args.validation_rows)
        for batch in found:
            yield self._on_devices(MicroBatches(*in_order(batch)), rows)

    def _totals_over(self, batches: Iterable[MicroBatches], params: Any) -> tuple[float, float]:
        sums = [self._totals(params, batch) for batch in batches]
        return sum(float(total) for total, _ in sums), sum(float(count) for _, count in sums)

    def _extras(
        self, classes: Sequence[type[Any]], state: TrainState, step: int
    ) -> Iterable[tuple[Any, Measured]]:
        if not classes:
            return
        measured = Measured(
            model=self.trainer.model,
            params=state.params,
            tokenizer=self.trainer.tokenizer,
            step=step,
            seed=self.args.seed,
            validation=self._validation_batches,
        )
        for cls in classes:
            yield cls(), measured

    def _save(self, state: TrainState, step: int) -> None:
        if step == self._saved_step:
            return
        tokens = step * self.plan.tokens_per_step
        self.checkpoints.save(step, state, tokens=tokens, loss=self.facts.get("loss"))
        self._saved_step = step
        self.recorder.event("checkpoint", step=step)
        if self.args.analyze:
            for analysis, measured in self._extras(self.trainer.ANALYSIS, state, step):
                self._keep(type(analysis).__name__, step, analysis.analyze(measured))

    def _keep(self, name: str, step: int, found: dict[str, Any]) -> None:
        folder = self.recorder.folder / "results"
        folder.mkdir(exist_ok=True)
        partial_file = folder / f".{name}-{step}.json"
        partial_file.write_text(json.dumps({"v": 1, "step": step, **found}))
        partial_file.rename(folder / f"{name}-{step}.json")

    def _stop(self, state: TrainState, step: int) -> None:
        self._settle(0)
        self._save(state, step)
        self.checkpoints.wait()
        self.trainer._state = state
        if step < self.plan.steps:
            msg = (
                f"stopped at step {step:,} of {self.plan.steps:,} ({self.recorder.stopping}); "
                "its checkpoint is saved. Run the same again to go on from there"
            )
            raise StopRequested(msg)

    def _diverged(self, step: int, loss: float) -> None:
        self.checkpoints.wait()
        kept = self.checkpoints.steps()
        told = f"the checkpoint of step {kept[-1]:,} is kept" if kept else "no checkpoint yet"
        msg = (
            f"the loss of step {step:,} is {loss}: training has diverged ({told}). "
            "Lower optimization.lr, raise optimization.warmup_pct or lower optimization.grad_clip"
        )
        raise DivergedError(msg)


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
