"""Random keys as pure functions of (seed, purpose, step): nothing random is ever stored."""

from __future__ import annotations

import enum

import jax


class Purpose(enum.IntEnum):
    """What a key is for; the numbers are part of what makes a run repeatable."""

    INITIAL_PARAMETERS = 0
    DROPOUT = 1
    EVALUATION = 2


def key(seed: int, purpose: Purpose, step: jax.Array | int = 0) -> jax.Array:
    """Return the key for a purpose at a step; the same on any machine, mesh and restart."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), step)
