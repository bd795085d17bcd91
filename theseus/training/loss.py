"""The loss of a step and its gradient, over any number of micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
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
    model: nn.Module,
    params: Any,
    batches: MicroBatches,
    dropout_key: jax.Array | None,
    shardings: Any = None,
) -> StepLoss:
    """Sum losses and gradients over valid targets, then divide once by their global count.

    A mean of the micro-batches' means would weigh a target in a short micro-batch more than one in
    a full one. Sums are float32 whatever the model computes in. Without any valid target the loss
    and the gradients are 0.

    Parameters
    ----------
    batches
        Each part (A, R, T).
    dropout_key
        None: nothing is dropped.
    shardings
        How the gradients are spread over devices, for each parameter; None leaves it open.
    """

    def spread(gradients: Any) -> Any:
        if shardings is None:
            return gradients
        return jax.lax.with_sharding_constraint(gradients, shardings)

    def total(params: Any, index: jax.Array, batch: MicroBatches) -> tuple[jax.Array, jax.Array]:
        if dropout_key is None:
            return batch_totals(model, params, batch)
        rngs = {"dropout": jax.random.fold_in(dropout_key, index)}
        return batch_totals(model, params, batch, rngs)

    gradient = jax.value_and_grad(total, has_aux=True)
    accumulation = batches.tokens.shape[0]
    if accumulation == 1:
        (summed, count), gradients = gradient(
            params, jnp.int32(0), jax.tree.map(lambda part: part[0], batches)
        )
    else:

        def add(carry: Any, step: tuple[jax.Array, MicroBatches]) -> tuple[Any, None]:
            (value, n), grads = gradient(params, *step)
            summed, count, gradients = jax.tree.map(jnp.add, carry, (value, n, spread(grads)))
            return (summed, count, spread(gradients)), None

        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
        start = (jnp.zeros(()), jnp.zeros(()), spread(zeros))
        steps = (jnp.arange(accumulation), batches)
        (summed, count, gradients), _ = jax.lax.scan(add, start, steps)
    scale = 1 / jnp.maximum(count, 1)
    return StepLoss(summed * scale, count, jax.tree.map(lambda g: g * scale, spread(gradients)))


def batch_totals(
    model: nn.Module,
    params: Any,
    batch: MicroBatches,
    rngs: Mapping[str, jax.Array] | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Return (sum of losses, count of valid targets) of one batch, each part (R, T), float32.

    Without random keys nothing is dropped, as validation wants it.
    """
    result: Any = model.apply(
        {"params": params},
        batch.tokens,
        batch.targets,
        batch.weights,
        batch.positions,
        batch.segments,
        rngs=dict(rngs or {}),
        method="batch_loss",
    )
    total, count = result
    return total.astype(jnp.float32), count.astype(jnp.float32)
