"""What `benchmarks.train` measures in this environment: the trainer, its bare step, a plain loop.

    python -m benchmarks.contenders trainer '{"root": "…", "vocabulary": 512}'

Each is a process that runs a stretch of steps when it is told to (`benchmarks.serve`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.serve import Channel, Stretch, serve

DATASET = "text"
NEVER = 10**9


@dataclass(frozen=True)
class Spec:
    """A model, and the stretches of steps that are timed."""

    root: str
    layers: int = 4
    width: int = 128
    heads: int = 2
    block: int = 128
    vocabulary: int = 512
    rope: bool = False
    dtype: str = "float32"
    accumulation: int = 2
    rows: int = 4
    remat: str = "none"
    steps: int = 10
    interval: int = 10

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.accumulation * self.rows * self.block


def trainer_of(spec: Spec, open_run: Any = None) -> Any:
    """Return the trainer, made as a user makes it."""
    from theseus.config import load
    from theseus.quick import quick

    with quick(spec.root) as q:
        q.build("gpt/train/pretrain", f"benchmark-{time.time_ns()}")
        load(
            q.config,
            {
                "architecture": {
                    "n_layers": spec.layers,
                    "n_embd": spec.width,
                    "n_head": spec.heads,
                    "block_size": spec.block,
                    "vocab_size": spec.vocabulary,
                    "rope": spec.rope,
                    "dtype": {"activation": spec.dtype},
                },
                "training": {
                    "batch_size": spec.accumulation * spec.rows,
                    "per_device_batch_size": spec.rows,
                    "tokens": 10**6 * spec.tokens,
                    "validation": False,
                    "remat": spec.remat,
                },
                "logging": {"report_interval": spec.interval, "checkpoint_interval": NEVER},
                "data": {"dataset": DATASET},
            },
        )
        return q.create(open_run=open_run)


class Gate:
    """A recorder that records as ever, and holds the loop between two stretches of steps."""

    def __init__(self, recorder: Any, steps: int) -> None:
        self._recorder, self._steps = recorder, steps
        self._channel = Channel()
        self._stretch = Stretch()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def report(self, step: int, values: Any, *, tokens: int = 0) -> None:
        import jax

        self._recorder.report(step, values, tokens=tokens)
        if step % self._steps:
            return
        # The loop may have handed on steps beyond this one, as it had when this stretch began. They
        # end here: each stretch pays for as many as it has, and nothing runs beside the others.
        for array in jax.live_arrays():
            array.block_until_ready()
        self._channel.answer(**self._stretch.facts(), steps=self._steps)
        self._channel.wait()
        self._stretch = Stretch()


def run_trainer(spec: Spec) -> None:
    """Run the whole trainer: token files, records, progress."""
    from theseus import runs

    @contextmanager
    def open_run(job: Any, *, fresh: bool) -> Iterator[Any]:
        with runs.open_run(job, fresh=fresh) as recorder:
            yield Gate(recorder, spec.steps)

    trainer_of(spec, open_run)()


def run_step(spec: Spec) -> None:
    """Run the trainer's compiled step alone, on one batch that is on the device."""
    import jax

    from theseus.training.feed import micro_batches
    from theseus.training.state import initial_state

    trainer = trainer_of(spec)
    batch = jax.tree.map(jax.device_put, micro_batches(trainer.mixture, trainer.plan, 0))
    state = jax.jit(partial(initial_state, trainer.training, spec.block))()
    step = trainer.lower(batch).compile()

    def run(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            state, metrics = step(state, batch)
        metrics.loss.block_until_ready()

    serve(spec.steps, run)


def run_minimal(spec: Spec) -> None:
    """Run the hand-written loop on one batch that is on the device."""
    import jax.numpy as jnp
    import numpy as np

    from benchmarks import minimal

    if spec.rope:
        msg = "the hand-written loop has learned positions only"
        raise SystemExit(msg)
    sizes = minimal.Sizes(
        spec.width,
        spec.layers,
        spec.heads,
        spec.block,
        spec.vocabulary,
        spec.accumulation,
        spec.rows,
    )
    params, optimizer = minimal.initial(sizes), minimal.optimizer()
    opt_state = optimizer.init(params)
    step = minimal.make_step(optimizer, jnp.dtype(spec.dtype))
    shape = (spec.accumulation, spec.rows, spec.block)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 256, shape), jnp.int32)

    def run(steps: int) -> None:
        nonlocal params, opt_state
        for _ in range(steps):
            params, opt_state, loss = step(params, opt_state, tokens, tokens)
        loss.block_until_ready()

    serve(spec.steps, run)


def run_compilations(spec: Spec) -> None:
    """Answer what the compiler says, for each line of JSON that changes the model."""
    channel = Channel()
    channel.answer(**compiled(spec))
    for line in sys.stdin:
        channel.answer(**compiled(replace(spec, **json.loads(line))))


def compiled(spec: Spec) -> dict[str, float]:
    """Return what the compiler says about a step; nothing is allocated for it."""
    import jax

    from theseus.training.feed import micro_batches

    trainer = trainer_of(spec)
    batch = jax.tree.map(jax.device_put, micro_batches(trainer.mixture, trainer.plan, 0))
    _ = trainer.abstract_state
    began = time.perf_counter()
    lowered = trainer.lower(batch)
    traced = time.perf_counter() - began
    step = lowered.compile()
    seconds = time.perf_counter() - began
    memory = step.memory_analysis()
    return {
        "traced": traced,
        "seconds": seconds,
        "temporary": memory.temp_size_in_bytes,
        "total": memory.temp_size_in_bytes
        + memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes,
    }


def main() -> None:
    """Run the contender that is named."""
    kinds = {
        "trainer": run_trainer,
        "step": run_step,
        "minimal": run_minimal,
        "compilations": run_compilations,
    }
    name, spec = sys.argv[1:]
    kinds[name](Spec(**json.loads(spec)))


if __name__ == "__main__":
    main()
