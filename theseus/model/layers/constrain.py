"""Activations spread over the devices of the mesh that is in use."""

from __future__ import annotations

import jax
from jax.sharding import PartitionSpec

from theseus.hardware.sharding import RULES, partition


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    """Return x, to be spread as its axes say: "batch", "heads", "mlp", "vocab", or None for whole.

    Parameters
    ----------
    x
        An activation, such as (B, T, D).
    axes
        The name of each of its dimensions; fewer names leave the last ones whole.

    Returns
    -------
    x itself where no mesh is in use (`jax.set_mesh`), or one of a single device. A dimension that
    does not divide, such as the one row of a prompt, stays whole.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return x
    chosen = [
        axis if axis in mesh.shape and size % mesh.shape[axis] == 0 else None
        for axis, size in zip(partition(axes, RULES), x.shape, strict=False)
    ]
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*chosen))


def devices_along(axis: str) -> int:
    """Return how many devices the mesh in use has for a logical axis; 1 without a mesh."""
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty else int(mesh.shape.get(RULES[axis], 1))
