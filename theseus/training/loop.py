"""The training loop: steps, and what happens between them."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from theseus.errors import UserError
from theseus.job import Recorder, StopRequested
from theseus.training.checkpoint import Checkpoints
from theseus.training.extras import Measured
from theseus.training.feed import ahead, in_order, local_rows, micro_batches, on_devices
from theseus.training.loss import MicroBatches, batch_totals
from theseus.training.meter import Meter
from theseus.training.state import StepMetrics, TrainState

if TYPE_CHECKING:
    from theseus.training.base import BaseTrainer

IN_FLIGHT = 2  # steps that may be under way at once: enough to keep a device busy


class DivergedError(UserError):
    """The loss is no longer a number."""


class Pending(NamedTuple):
    """A step that has been handed to the device."""

    step: int
    metrics: StepMetrics


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
        self.meter = Meter(trainer.plan.tokens_per_step)
        self.pending: deque[Pending] = deque()
        self.facts: dict[str, float] = {}
        self.rows = trainer.placement.rows(before=1)
        self._local = local_rows(self.rows, self.plan.rows, 1)
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
                self.pending.append(Pending(step, metrics))
                self._settle(IN_FLIGHT - 1)
                state = self._at_intervals(state, step)
                if self.recorder.stopping:
                    self._stop(state, step)
        finally:
            batches.close()  # type: ignore[attr-defined]
        self._settle(0)
        return state

    def _batch(self, step: int) -> MicroBatches:
        host = micro_batches(self.trainer.mixture, self.plan, step, self._local)
        return on_devices(host, self.rows, self.plan.rows, 1)

    def _compile(self, state: TrainState, batch: MicroBatches) -> Any:
        with self.meter.compiling():
            return self.trainer.lower(batch).compile()

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
        found = self.trainer.mixture.validation(
            self.plan.rows, limit=self.args.validation_rows, rows=self._local
        )
        sharding = self.trainer.placement.rows()
        for batch in found:
            yield on_devices(MicroBatches(*in_order(batch)), sharding, self.plan.rows, 0)

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
