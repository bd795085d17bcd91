"""Cross-entropy against a large vocabulary, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

# Logits of one chunk: large enough for an efficient matrix product, small beside the model.
CHUNK_LOGITS = 2**23

Unembed = Callable[[Any, jax.Array], jax.Array]


def chunked_cross_entropy(
    unembed: Unembed,
    variables: Any,
    x: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
    vocab_size: int,
) -> tuple[jax.Array, jax.Array]:
    """Return the weighted sum of the targets' negative log-probabilities, and that of the weights.

    The rows are worked off in chunks. Where gradients are wanted each chunk's are made at once,
    while its logits are at hand, so that nothing is computed twice and no more than one chunk of
    logits is alive.

    Parameters
    ----------
    unembed
        `(variables, (N, D)) -> (N, V)`, logits of each row on its own.
    variables
        Whatever `unembed` reads; gradients flow into it.
    x, targets, weights
        (..., D), (...) integers below V, and (...) with 0 for a position that does not count.
    vocab_size
        V, to choose the chunk.
    """
    rows = x.reshape(-1, x.shape[-1])
    flat_targets, flat_weights = targets.reshape(-1), weights.reshape(-1).astype(jnp.float32)
    chunks = _chunk_count(rows.shape[0], vocab_size)
    leaves, treedef = jax.tree.flatten(variables)
    used = _used_leaves(unembed, treedef, leaves, rows)
    unused = [None if flag else leaf for flag, leaf in zip(used, leaves, strict=True)]

    def logits_of(active: tuple[jax.Array, ...], chunk: jax.Array) -> jax.Array:
        given = iter(active)
        full = [next(given) if flag else leaf for flag, leaf in zip(used, unused, strict=True)]
        return unembed(jax.tree.unflatten(treedef, full), chunk).astype(jnp.float32)

    active = tuple(leaf for flag, leaf in zip(used, leaves, strict=True) if flag)
    total = _total(logits_of, chunks, active, rows, flat_targets, flat_weights)
    return total, flat_weights.sum()


def _chunk_count(rows: int, vocab_size: int) -> int:
    """Return the least count that divides the rows and keeps a chunk within `CHUNK_LOGITS`."""
    for count in range(1, rows + 1):
        if rows % count == 0 and rows // count * vocab_size <= CHUNK_LOGITS:
            return count
    return rows


def _used_leaves(unembed: Unembed, treedef: Any, leaves: list[Any], rows: jax.Array) -> list[bool]:
    """Tell which variables the logits depend on: gradients of the others need no room."""

    def of_leaves(given: list[Any], chunk: jax.Array) -> jax.Array:
        return unembed(jax.tree.unflatten(treedef, given), chunk)

    jaxpr = jax.make_jaxpr(of_leaves)(leaves, rows[:1]).jaxpr
    read = {id(v) for eqn in jaxpr.eqns for v in eqn.invars} | {id(v) for v in jaxpr.outvars}
    inexact = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]
    variables = jaxpr.invars[: len(leaves)]
    return [id(v) in read and float_ for v, float_ in zip(variables, inexact, strict=True)]


def _chunk_total(logits: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the weighted sum of −log softmax(logits)[target] over the rows of logits (N, V)."""
    picked = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    return ((jax.nn.logsumexp(logits, axis=-1) - picked) * weights).sum()


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _total(
    logits_of: Callable[..., jax.Array],
    chunks: int,
    active: tuple[jax.Array, ...],
    rows: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
) -> jax.Array:
    def one(chunk: tuple[jax.Array, ...]) -> jax.Array:
        x, chunk_targets, chunk_weights = chunk
        return _chunk_total(logits_of(active, x), chunk_targets, chunk_weights)

    split = tuple(t.reshape(chunks, -1, *t.shape[1:]) for t in (rows, targets, weights))
    return jax.lax.map(one, split).sum()


def _total_forward(
    logits_of: Callable[..., jax.Array],
    chunks: int,
    active: tuple[jax.Array, ...],
    rows: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
) -> tuple[jax.Array, Any]:
    def one(
        carry: tuple[jax.Array, tuple[jax.Array, ...]], chunk: tuple[jax.Array, ...]
    ) -> tuple[Any, jax.Array]:
        total, gradients = carry
        x, chunk_targets, chunk_weights = chunk

        def of_inputs(active: tuple[jax.Array, ...], x: jax.Array) -> jax.Array:
            return _chunk_total(logits_of(active, x), chunk_targets, chunk_weights)

        value, pullback = jax.vjp(of_inputs, active, x)
        d_active, d_x = pullback(jnp.ones_like(value))
        return (total + value, jax.tree.map(jnp.add, gradients, d_active)), d_x

    if chunks == 1:
        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, active))
        (total, gradients), d_rows = one(zero, (rows, targets, weights))
        return total, (gradients, d_rows)
    split = tuple(t.reshape(chunks, -1, *t.shape[1:]) for t in (rows, targets, weights))
    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, active))
    (total, gradients), d_rows = jax.lax.scan(one, zero, split)
    return total, (gradients, d_rows.reshape(rows.shape))


def _total_backward(
    logits_of: Callable[..., jax.Array], chunks: int, saved: Any, cotangent: jax.Array
) -> tuple[Any, ...]:
    gradients, d_rows = saved
    scaled = jax.tree.map(lambda g: (g * cotangent).astype(g.dtype), gradients)
    return scaled, (d_rows * cotangent).astype(d_rows.dtype), None, None


_total.defvjp(_total_forward, _total_backward)
