"""The training loop: steps, and what happens between them."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict

import jax

from theseus.errors import UserError
from theseus.job import Recorder, StopRequested
from theseus.training.checkpoint import Checkpoints
from theseus.training.extras import Measured
from theseus.training.feed import ahead, in_order, local_rows, micro_batches, on_devices
from theseus.training.loss import MicroBatches, batch_totals
from theseus.training.meter import Meter
from theseus.training.profile import Profile
from theseus.training.state import StepMetrics, TrainState
from theseus.training.stopping import StopWatch

if TYPE_CHECKING:
    from theseus.training.base import BaseTrainer

IN_FLIGHT = 2  # steps that may be under way at once: enough to keep a device busy


class DivergedError(UserError):
    """The loss is no longer a number."""


class Best(TypedDict):
    """The lowest validation loss so far."""

    value: float
    step: int


class Pending(NamedTuple):
    """A step that has been handed to the device."""

    step: int
    metrics: StepMetrics
    asked: jax.Array | None  # whether any process was told to stop


class _Interrupted(Exception):
    """A validation that was left because the run is to end."""


class Loop:
    """One execution of the loop: what its parts share while it lasts."""

    def __init__(
        self, trainer: BaseTrainer[Any, Any], recorder: Recorder, checkpoints: Checkpoints
    ) -> None:
        self.trainer = trainer
        self.args = trainer.args
        self.plan = trainer.plan
        self.recorder = recorder
        self.checkpoints = checkpoints
        self.meter = Meter(trainer.plan.tokens_per_step, trainer.flops_per_token, trainer.peak)
        self.pending: deque[Pending] = deque()
        self.facts: dict[str, float] = {}
        self.stop = StopWatch(recorder, trainer.placement)
        self.rows = trainer.placement.rows(before=1)
        self._local = local_rows(self.rows, self.plan.rows, 1)
        self._totals = jax.jit(partial(batch_totals, trainer.model))
        self._profile = Profile(self.args.profile_start, self.args.profile_steps)
        self._best: Best | None = None
        self._validated = self._saved = -1

    def resume(self, step: int, facts: Mapping[str, Any]) -> None:
        """Take up what the manifest of the checkpoint of `step` says of the run."""
        self._best = facts.get("best")
        self._validated = facts.get("validated", -1)
        self._saved = step

    def run(self, state: TrainState, step: int) -> TrainState:
        """Take the state from `step` to the last step of the plan.

        Raises
        ------
        StopRequested
            When the run was asked to end, after its state was saved.
        DivergedError
            When a loss is not a number.
        CheckpointError
            When a checkpoint could not be written.
        """
        batches = ahead(self._batch, step, self.plan.steps)
        compiled = None
        self._progress(step)
        try:
            if step:  # a validation that was left so that the run could end in time
                self._validate_if_due(state, step)
            for batch in batches:
                if compiled is None:
                    compiled = self._compile(batch)
                    self.meter.start()
                if self.stop.stopping:
                    self._stop(state, step)
                self._profile.before(step + 1, self.recorder.folder)
                state, metrics = compiled(state, batch)
                step += 1
                self.pending.append(Pending(step, metrics, self.stop.ask()))
                self._settle(IN_FLIGHT - 1)
                self._at_intervals(state, step)
                self.checkpoints.raise_failure()
        finally:
            batches.close()  # type: ignore[attr-defined]
            self._profile.close()
        self._settle(0)
        return state

    def _batch(self, step: int) -> MicroBatches:
        host = micro_batches(self.trainer.mixture, self.plan, step, self._local)
        return on_devices(host, self.rows, self.plan.rows, 1)

    def _compile(self, batch: MicroBatches) -> Any:
        with self.meter.compiling():
            return self.trainer.lower(batch).compile()

    def _settle(self, at_most: int) -> None:
        """Wait until no more than `at_most` steps are under way; read what the others tell."""
        while len(self.pending) > at_most:
            step, metrics, asked = self.pending.popleft()
            loss = float(metrics.loss)
            self.stop.hear(asked)
            self.meter.step()
            if not math.isfinite(loss):
                self._diverged(step, loss)
            rate = float(metrics.lr)
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
            share = self.meter.flops_share(speed)
            if share is not None:
                self.facts["mfu"] = values["train/mfu"] = share
        self.recorder.report(step, values, tokens=step * self.plan.tokens_per_step)

    def _progress(self, step: int) -> None:
        self.recorder.progress(step, self.plan.steps, unit="steps", **self.facts)

    def _at_intervals(self, state: TrainState, step: int) -> None:
        if self._profile.ends_with(step):
            self._settle(0)
            self.recorder.event("profile", step=step, folder=str(self._profile.close()))
        self._validate_if_due(state, step)
        if step == self.plan.steps or step % self.args.checkpoint_interval == 0:
            self._settle(0)  # a loss that is not a number is noticed before it is saved
            with self.meter.paused():
                self._save(state, step)

    def _validate_if_due(self, state: TrainState, step: int) -> None:
        due = step == self.plan.steps or step % self.args.validation_interval == 0
        if not due or step == self._validated or not self._wants_validation():
            return
        self._settle(0)
        with self.meter.paused():
            try:
                self._validate(state, step)
            except _Interrupted:
                self._stop(state, step)
        self._validated = step

    def _wants_validation(self) -> bool:
        held_out = self.args.validation and self.trainer.mixture.has_validation
        return held_out or (self.args.evaluate and bool(self.trainer.EVALUATION))

    def _validate(self, state: TrainState, step: int) -> None:
        values: dict[str, float] = {}
        if self.args.validation and self.trainer.mixture.has_validation:
            values["val/loss"] = self.facts["val_loss"] = self._mean_loss(state.params)
            if state.ema is not None:
                values["val/ema_loss"] = self._mean_loss(state.ema)
        if self.args.evaluate:
            for evaluation, measured in self._extras(self.trainer.EVALUATION, state, step):
                found = evaluation.evaluate(measured)
                values |= {f"eval/{name}": value for name, value in found.items()}
        loss = values.get("val/loss", math.inf)
        if loss < (self._best["value"] if self._best else math.inf):
            self._best = {"value": loss, "step": step}
        self.recorder.report(step, values, tokens=step * self.plan.tokens_per_step)
        self._progress(step)

    def _validation_batches(self) -> Iterable[MicroBatches]:
        found = self.trainer.mixture.validation(
            self.plan.rows, limit=self.args.validation_rows, rows=self._local
        )
        sharding = self.trainer.placement.rows()
        for batch in found:
            if self.stop.asked_now():
                raise _Interrupted
            yield on_devices(MicroBatches(*in_order(batch)), sharding, self.plan.rows, 0)

    def _mean_loss(self, params: Any) -> float:
        sums = [self._totals(params, batch) for batch in self._validation_batches()]
        targets = sum(float(count) for _, count in sums)
        return sum(float(total) for total, _ in sums) / max(targets, 1)

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
        if step == self._saved:
            return
        self.checkpoints.save(
            step,
            state,
            tokens=step * self.plan.tokens_per_step,
            loss=self.facts.get("loss"),
            best=self._best,
            validated=self._validated,
        )
        self._saved = step
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

    def _stop(self, state: TrainState, step: int) -> NoReturn:
        self._settle(0)
        if step:  # before the first there is nothing that the seed does not give again
            self._save(state, step)
            self.checkpoints.wait()
        kept = "its checkpoint is saved. " if step else ""
        reason = self.recorder.stopping or "another process was asked to stop"
        msg = (
            f"stopped at step {step:,} of {self.plan.steps:,} ({reason}); "
            f"{kept}Run the same again to go on from there"
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
