"""Rotary position embedding (Su et al., arXiv:2104.09864)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Rotation(NamedTuple):
    """The cosines and sines of every position and frequency, each (B or 1, 1, T, K/2), float32."""

    cos: jax.Array
    sin: jax.Array


def rotation(positions: jax.Array, head_size: int, base: float = 10_000.0) -> Rotation:
    """Return the rotation for positions (B or 1, T) and heads of even size K.

    Angles are float32 whatever the model computes in: in bfloat16 neighbouring positions beyond
    256 would be the same.
    """
    frequencies = base ** (-jnp.arange(0, head_size, 2, dtype=jnp.float32) / head_size)
    angles = positions.astype(jnp.float32)[:, None, :, None] * frequencies
    return Rotation(jnp.cos(angles), jnp.sin(angles))


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Rotate the pairs (x[k], x[k + K/2]) of x (B, H, T, K) by their position's angles."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = (first * by.cos - second * by.sin, second * by.cos + first * by.sin)
    return jnp.concatenate(rotated, axis=-1).astype(x.dtype)
