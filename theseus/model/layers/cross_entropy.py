"""Cross-entropy against a large vocabulary, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from theseus.model.layers.backend import backend
from theseus.model.layers.constrain import constrain, devices_along

LOGITS = ("batch", None, "vocab")

# Logits of one chunk on one device: large enough for an efficient matrix product, small beside the
# model. Each chunk reads and writes the whole gradient of the embedding: a GPU wants few of them.
CHUNK_LOGITS = {"cpu": 2**24}
CHUNK_LOGITS_ELSEWHERE = 2**27

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

    The positions are worked off in chunks along T, so that each device keeps its own rows. Where
    gradients are wanted each chunk's are made at once, while its logits are at hand, so that
    nothing is computed twice and no more than one chunk of logits is alive.

    Parameters
    ----------
    unembed
        `(variables, (..., D)) -> (..., V)`, logits of each position on its own.
    variables
        Whatever `unembed` reads; gradients flow into it.
    x, targets, weights
        (B, T, D), (B, T) integers below V, and (B, T) with 0 for a position that does not count.
    vocab_size
        V, to choose the chunk.
    """
    weights = weights.astype(jnp.float32)
    chunks = chunk_count(
        rows=x.shape[0] // devices_along("batch"),
        length=x.shape[1],
        vocab_size=vocab_size // devices_along("vocab"),
        backend=backend(),
    )
    leaves, treedef = jax.tree.flatten(variables)
    used = _used_leaves(unembed, treedef, leaves, x)
    unused = [None if flag else leaf for flag, leaf in zip(used, leaves, strict=True)]

    def logits_of(active: tuple[jax.Array, ...], chunk: jax.Array) -> jax.Array:
        given = iter(active)
        full = [next(given) if flag else leaf for flag, leaf in zip(used, unused, strict=True)]
        logits = constrain(unembed(jax.tree.unflatten(treedef, full), chunk), *LOGITS)
        return logits.astype(jnp.float32)

    active = tuple(leaf for flag, leaf in zip(used, leaves, strict=True) if flag)
    return _total(logits_of, chunks, active, x, targets, weights), weights.sum()


def chunk_count(*, rows: int, length: int, vocab_size: int, backend: str) -> int:
    """Return how many chunks the positions of one device are worked off in.

    The least number that divides `length` (T) and keeps `rows` × T / number × `vocab_size` logits,
    all counted on one device, within what suits the backend.
    """
    limit = CHUNK_LOGITS.get(backend, CHUNK_LOGITS_ELSEWHERE)
    for count in range(1, length + 1):
        if length % count == 0 and rows * (length // count) * vocab_size <= limit:
            return count
    return length


def _split(x: jax.Array, chunks: int) -> jax.Array:
    """Return x (B, T, …) as (chunks, B, T / chunks, …)."""
    parts = x.reshape(x.shape[0], chunks, -1, *x.shape[2:])
    return jnp.moveaxis(parts, 1, 0)


def _joined(parts: jax.Array) -> jax.Array:
    """Return what `_split` was given."""
    x = jnp.moveaxis(parts, 0, 1)
    return x.reshape(x.shape[0], -1, *x.shape[3:])


def _used_leaves(unembed: Unembed, treedef: Any, leaves: list[Any], x: jax.Array) -> list[bool]:
    """Tell which variables the logits depend on: gradients of the others need no room."""

    def of_leaves(given: list[Any], chunk: jax.Array) -> jax.Array:
        return unembed(jax.tree.unflatten(treedef, given), chunk)

    jaxpr = jax.make_jaxpr(of_leaves)(leaves, x[:1, :1]).jaxpr
    read = {id(v) for eqn in jaxpr.eqns for v in eqn.invars} | {id(v) for v in jaxpr.outvars}
    inexact = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]
    variables = jaxpr.invars[: len(leaves)]
    return [id(v) in read and float_ for v, float_ in zip(variables, inexact, strict=True)]


def _chunk_total(logits: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the weighted sum of −log softmax(logits)[target] over logits (..., V)."""
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return ((jax.nn.logsumexp(logits, axis=-1) - picked) * weights).sum()


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _total(
    logits_of: Callable[..., jax.Array],
    chunks: int,
    active: tuple[jax.Array, ...],
    x: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
) -> jax.Array:
    def one(chunk: tuple[jax.Array, ...]) -> jax.Array:
        part, chunk_targets, chunk_weights = chunk
        return _chunk_total(logits_of(active, part), chunk_targets, chunk_weights)

    split = tuple(_split(part, chunks) for part in (x, targets, weights))
    return jax.lax.map(one, split).sum()


def _total_forward(
    logits_of: Callable[..., jax.Array],
    chunks: int,
    active: tuple[jax.Array, ...],
    x: jax.Array,
    targets: jax.Array,
    weights: jax.Array,
) -> tuple[jax.Array, Any]:
    def one(
        carry: tuple[jax.Array, tuple[jax.Array, ...]], chunk: tuple[jax.Array, ...]
    ) -> tuple[Any, jax.Array]:
        total, gradients = carry
        part, chunk_targets, chunk_weights = chunk

        def of_inputs(active: tuple[jax.Array, ...], part: jax.Array) -> jax.Array:
            return _chunk_total(logits_of(active, part), chunk_targets, chunk_weights)

        value, pullback = jax.vjp(of_inputs, active, part)
        d_active, d_x = pullback(jnp.ones_like(value))
        return (total + value, jax.tree.map(jnp.add, gradients, d_active)), d_x

    if chunks == 1:
        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, active))
        (total, gradients), d_x = one(zero, (x, targets, weights))
        return total, (gradients, d_x)
    split = tuple(_split(part, chunks) for part in (x, targets, weights))
    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, active))
    (total, gradients), d_parts = jax.lax.scan(one, zero, split)
    return total, (gradients, _joined(d_parts))


def _total_backward(
    logits_of: Callable[..., jax.Array], chunks: int, saved: Any, cotangent: jax.Array
) -> tuple[Any, ...]:
    gradients, d_x = saved
    scaled = jax.tree.map(lambda g: (g * cotangent).astype(g.dtype), gradients)
    return scaled, (d_x * cotangent).astype(d_x.dtype), None, None


_total.defvjp(_total_forward, _total_backward)
