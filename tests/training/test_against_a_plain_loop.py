"""The trainer's step against the hand-written one of the benchmarks: same weights, same rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from benchmarks import minimal
from theseus.config import build, configuration, configure
from theseus.model.models import GPT
from theseus.training.loss import MicroBatches
from theseus.training.optimizers import AdamW
from theseus.training.schedules import WSD
from theseus.training.state import (
    Training,
    boxed_parameters,
    initial_state,
    make_optimizer,
    train_step,
)

SHAPE = {"n_embd": 32, "n_layers": 3, "n_head": 4, "block_size": 16, "vocab_size": 60}


def test_ten_steps_are_those_of_a_hand_written_loop() -> None:
    with configuration(build(GPT, values={"architecture": SHAPE})):
        model = configure(GPT)
    rate = WSD(lr=1e-2, warmup_pct=0.3, decay_pct=0.3).build(10)
    boxed = jax.eval_shape(lambda: boxed_parameters(model, 0, 16))
    training = Training(model, make_optimizer(AdamW(), rate, boxed), rate, 0, dropout=False)
    state: Any = jax.jit(partial(initial_state, training, 16))()
    step = jax.jit(partial(train_step, training))

    params = minimal.from_gpt(nn.meta.unbox(state.params))
    optimizer = minimal.optimizer(rate)
    opt_state, plain_step = optimizer.init(params), minimal.make_step(optimizer)

    draw = np.random.default_rng(0)
    found, expected = [], []
    for _ in range(10):
        tokens = draw.integers(0, 6, (2, 4, 16)).astype(np.int32)
        targets = np.roll(tokens, 1, axis=-1)
        weights = np.ones(tokens.shape, np.float32)
        state, metrics = step(state, MicroBatches(tokens, targets, weights))
        params, opt_state, loss = plain_step(params, opt_state, tokens, targets)
        found.append(float(metrics.loss))
        expected.append(float(loss))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[-1] < found[0] - 0.5
