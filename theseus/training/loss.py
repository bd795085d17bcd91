"""The loss of a step and its gradient, over any number of micro-batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp


class MicroBatches(NamedTuple):
    """What one optimizer step reads, each (A, R, T): A micro-batches of R rows of T tokens.

    `weights` is 0 for a target that does not count. `segments` and `positions` are there when
    documents are kept apart.
    """

    tokens: jax.Array
    targets: jax.Array
    weights: jax.Array
    segments: jax.Array | None = None
    positions: jax.Array | None = None


class StepLoss(NamedTuple):
    """The mean loss over all valid targets, their count, and the gradient of that mean."""

    loss: jax.Array
    targets: jax.Array
    gradients: Any


def loss_and_gradients(
    model: nn.Module, params: Any, batches: MicroBatches, dropout_key: jax.Array | None
) -> StepLoss:
    """Sum losses and gradients over valid targets, then divide once by their global count.

    A mean of the micro-batches' means would weigh a target in a short micro-batch more than one in
    a full one. Sums are float32 whatever the model computes in. Without any valid target the loss
    and the gradients are 0.
    """

    def total(params: Any, index: jax.Array, batch: MicroBatches) -> tuple[jax.Array, jax.Array]:
        rngs = {}
        if dropout_key is not None:
            rngs["dropout"] = jax.random.fold_in(dropout_key, index)
        summed, count = model.apply(  # type: ignore[misc]
            {"params": params},
            batch.tokens,
            batch.targets,
            batch.weights,
            batch.positions,
            batch.segments,
            rngs=rngs,
            method="batch_loss",
        )
        return summed.astype(jnp.float32), count.astype(jnp.float32)

    gradient = jax.value_and_grad(total, has_aux=True)
    accumulation = batches.tokens.shape[0]
    if accumulation == 1:
        (summed, count), gradients = gradient(params, jnp.int32(0), _micro(batches, 0))
    else:

        def add(carry: Any, step: tuple[jax.Array, MicroBatches]) -> tuple[Any, None]:
            (value, n), grads = gradient(params, *step)
            return jax.tree.map(jnp.add, carry, (value, n, grads)), None

        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
        start = (jnp.zeros(()), jnp.zeros(()), zeros)
        steps = (jnp.arange(accumulation), batches)
        (summed, count, gradients), _ = jax.lax.scan(add, start, steps)
    scale = 1 / jnp.maximum(count, 1)
    return StepLoss(summed * scale, count, jax.tree.map(lambda g: g * scale, gradients))


def _micro(batches: MicroBatches, index: int) -> MicroBatches:
    return MicroBatches(*(None if part is None else part[index] for part in batches))
