"""Optimizers: a dataclass of fields (the schema) that makes an optax transformation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import flax.linen as nn
import jax
import optax

from theseus.config import field
from theseus.training.schedules import LearningRate

NEVER_DECAYED = ("bias", "scale")


class Optimizer(Protocol):
    """A dataclass of fields that makes the optimizer of a run."""

    def build(self, learning_rate: LearningRate, decayed: Any) -> optax.GradientTransformation:
        """Return the transformation; `decayed` is True for each parameter to be decayed."""


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101)."""

    weight_decay: float = field(
        "optimization/weight_decay", default=0.1, ge=0.0, help="decay of matrices, times the lr"
    )
    beta1: float = field(
        "optimization/beta1", default=0.9, ge=0.0, le=1.0, help="memory of the mean gradient"
    )
    beta2: float = field(
        "optimization/beta2", default=0.95, ge=0.0, le=1.0, help="memory of its square"
    )
    eps: float = field(
        "optimization/eps", default=1e-8, ge=0.0, log=True, help="added to the denominator"
    )
    grad_clip: float | None = field(
        "optimization/grad_clip",
        default=1.0,
        ge=0.0,
        help="greatest norm of the gradient; unset: no clipping",
    )

    def build(self, learning_rate: LearningRate, decayed: Any) -> optax.GradientTransformation:
        """Return clipping by global norm, then AdamW."""
        clip = optax.identity()
        if self.grad_clip is not None:
            clip = optax.clip_by_global_norm(self.grad_clip)
        adamw = optax.adamw(
            learning_rate,
            b1=self.beta1,
            b2=self.beta2,
            eps=self.eps,
            weight_decay=self.weight_decay,
            mask=decayed,
        )
        return optax.chain(clip, adamw)


def matrices(boxed: Any) -> Any:
    """Return, for boxed parameters, the tree of which are matrices: those that decay.

    Biases and norms are not, whatever their rank: a layer scan adds an axis to each, and a bias of
    heads has two of its own.
    """

    def is_matrix(path: tuple[Any, ...], leaf: Any) -> bool:
        names = [str(getattr(part, "key", getattr(part, "name", part))) for part in path]
        parameter = next(name for name in reversed(names) if name != "value")
        if parameter.endswith(NEVER_DECAYED):
            return False
        axes = getattr(leaf, "names", None)
        if axes is None:
            return len(leaf.shape) >= 2
        return sum(axis != "layers" for axis in axes) >= 2

    return jax.tree_util.tree_map_with_path(
        is_matrix, boxed, is_leaf=lambda leaf: isinstance(leaf, nn.meta.AxisMetadata)
    )
