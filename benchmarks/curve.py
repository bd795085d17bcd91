"""The loss curve of a run beside that of a hand-written loop on the same rows.

    python -m benchmarks.curve ROOT/runs/general/default/quickstart-… ROOT

Reads the run's configuration and metrics, trains `benchmarks.minimal` on the very rows that the run
read, with the same sizes, schedule and optimizer, and prints the losses of both. It begins with the
weights that the run began with; `--own-weights` draws others, which shows how much is chance.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
from omegaconf import OmegaConf

from benchmarks import minimal
from theseus.config import build, configuration, configure
from theseus.data.datasets import Sampling
from theseus.data.mixture import Mixture
from theseus.model.models import GPT
from theseus.runs import Run
from theseus.training.feed import micro_batches
from theseus.training.plan import plan
from theseus.training.schedules import WSD
from theseus.training.state import boxed_parameters

WINDOW = 20  # steps whose losses are averaged: single steps differ by their rows


def main() -> None:
    """Print `tokens, loss of the run, loss of the loop` at ten places."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("root", type=Path, help="the root that it was trained in")
    parser.add_argument("--own-weights", type=int, metavar="SEED", help="draw the loop's own")
    options = parser.parse_args()
    run = Run(options.run)
    config = OmegaConf.load(options.run / "config.yaml")
    shape, training = config.architecture, config.training
    sizes = plan(
        tokens=training.tokens,
        batch_size=training.batch_size,
        block_size=shape.block_size,
        per_device_batch_size=training.per_device_batch_size,
        devices=1,
    )
    mixture = Mixture(
        [Sampling(config.data.dataset)],
        root=options.root,
        block_size=shape.block_size,
        batch_size=training.batch_size,
        seed=training.seed,
        suffix=config.data.suffix,
    )
    optimization = config.optimization
    rate = WSD(
        lr=optimization.lr,
        warmup_pct=optimization.warmup_pct,
        decay_pct=optimization.decay_pct,
        final_lr_frac=optimization.final_lr_frac,
    ).build(sizes.steps)
    if options.own_weights is None:
        with configuration(build(GPT, values={"architecture": dict(shape)})):
            model = configure(GPT)
        boxed = jax.jit(lambda: boxed_parameters(model, training.seed, shape.block_size))()
        params = minimal.from_gpt(nn.meta.unbox(boxed))
    else:
        heads = shape.n_head or max(1, shape.n_embd // 64)
        drawn = minimal.Sizes(
            shape.n_embd, shape.n_layers, heads, shape.block_size, shape.vocab_size
        )
        params = minimal.initial(drawn, options.own_weights)
    optimizer = minimal.optimizer(rate)
    opt_state, step = optimizer.init(params), minimal.make_step(optimizer)
    losses = []
    for number in range(sizes.steps):
        batch = micro_batches(mixture, sizes, number)
        params, opt_state, loss = step(
            params, opt_state, jnp.asarray(batch.tokens), jnp.asarray(batch.targets)
        )
        losses.append(float(loss))
    ours = dict(zip(*run.series("train/loss"), strict=True))
    print(f"{'step':>6} {'tokens':>10} {'the run':>8} {'the loop':>8}")
    for part in range(11):
        last = max(round(part / 10 * sizes.steps), 1)
        window = range(max(1, last - WINDOW + 1), last + 1)
        steps = [number for number in window if number in ours]
        if steps:
            of_run = statistics.mean(ours[number] for number in steps)
            of_loop = statistics.mean(losses[number - 1] for number in steps)
            print(f"{last:6} {last * sizes.tokens_per_step:10,} {of_run:8.3f} {of_loop:8.3f}")


if __name__ == "__main__":
    main()
