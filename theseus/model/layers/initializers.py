"""Initial values of parameters, with the logical axes that sharding and weight decay read."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax

# How the published GPT-2 starts its weights (Radford et al. 2019, and its released code).
STDDEV = 0.02


def normal(axes: tuple[str | None, ...], stddev: float = STDDEV) -> Any:
    """Return an initialiser drawing from N(0, stddev²), with `axes` naming each dimension."""
    return nn.with_logical_partitioning(jax.nn.initializers.normal(stddev), axes)


def zeros(axes: tuple[str | None, ...]) -> Any:
    """Return an initialiser of zeros, with `axes` naming each dimension."""
    return nn.with_logical_partitioning(jax.nn.initializers.zeros, axes)


def ones(axes: tuple[str | None, ...]) -> Any:
    """Return an initialiser of ones, with `axes` naming each dimension."""
    return nn.with_logical_partitioning(jax.nn.initializers.ones, axes)
