"""The state of a training run, and the one function that takes it a step further."""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from theseus.training.loss import MicroBatches, loss_and_gradients
from theseus.training.optimizers import Optimizer
from theseus.training.randomness import Purpose, key
from theseus.training.schedules import LearningRate


class TrainState(NamedTuple):
    """All that changes during training; with the configuration it determines all that follows."""

    step: jax.Array
    params: Any
    opt_state: Any
    ema: Any = None  # the running average of the parameters, where one is kept


class StepMetrics(NamedTuple):
    """What a step tells: float32 scalars, still on the device."""

    loss: jax.Array
    grad_norm: jax.Array
    targets: jax.Array
    lr: jax.Array


class Training(NamedTuple):
    """What the steps of a run have in common."""

    model: nn.Module
    optimizer: optax.GradientTransformation
    learning_rate: LearningRate  # the optimizer's own, so that the step can tell it
    seed: int
    dropout: bool
    ema: float | None = None


def boxed_parameters(model: nn.Module, seed: int, block_size: int) -> Any:
    """Return the initial parameters, each still carrying the names of its axes.

    The values depend on the seed alone: not on batch, devices or hosts.
    """
    tokens = jnp.zeros((1, min(block_size, 2)), jnp.int32)
    return model.init(key(seed, Purpose.INITIAL_PARAMETERS), tokens)["params"]


def make_optimizer(
    optimizer: Optimizer, learning_rate: LearningRate, boxed: Any
) -> optax.GradientTransformation:
    """Return the optimizer of a model with these (abstract) boxed parameters."""
    return optimizer.build(learning_rate, boxed)


def initial_state(training: Training, block_size: int) -> TrainState:
    """Return the state before the first step."""
    params = nn.meta.unbox(boxed_parameters(training.model, training.seed, block_size))
    # A copy: the step gives the memory of its state back, and no two leaves may share any.
    ema = None if training.ema is None else jax.tree.map(jnp.copy, params)
    return TrainState(jnp.zeros((), jnp.int32), params, training.optimizer.init(params), ema)


def train_step(
    training: Training, state: TrainState, batches: MicroBatches, gradients: Any = None
) -> tuple[TrainState, StepMetrics]:
    """Return the state after one optimizer step on `batches` (A, R, T), and its metrics.

    `gradients` is how each gradient is spread over devices; None leaves it to the compiler.
    """
    dropout_key = key(training.seed, Purpose.DROPOUT, state.step) if training.dropout else None
    result = loss_and_gradients(training.model, state.params, batches, dropout_key, gradients)
    updates, opt_state = training.optimizer.update(result.gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    norm = optax.tree.norm(result.gradients)
    # Told from within the step: asked for beside it, it would queue behind the step under way.
    rate = training.learning_rate(state.step)
    metrics = StepMetrics(result.loss, norm, result.targets, jnp.asarray(rate, jnp.float32))
    ema = None if training.ema is None else averaged(state.ema, params, state.step, training.ema)
    return TrainState(state.step + 1, params, opt_state, ema), metrics


def averaged(ema: Any, params: Any, step: jax.Array, decay: float) -> Any:
    """Return the running average of the parameters after `step` (from 0).

    The first averages forget faster, by (1 + step) / (10 + step), so that the initial weights do not
    linger (`num_updates` of TensorFlow's `ExponentialMovingAverage`).
    """
    kept = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda old, new: old + (1 - kept) * (new - old), ema, params)
