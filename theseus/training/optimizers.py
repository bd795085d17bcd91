"""Optimizers: a dataclass of fields (the schema) that makes an optax transformation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from theseus.config import field
from theseus.training.schedules import LearningRate

NEVER_DECAYED = ("bias", "scale")

# How an axis takes part in the matrices of a parameter. The heads of attention and their size are
# one side together; what is not here only counts matrices: layers, and q, k, v.
SIDES = {"embed": "embed", "mlp": "mlp", "heads": "heads", "head_size": "heads"}


class Optimizer(Protocol):
    """A dataclass of fields that makes the optimizer of a run."""

    def build(self, learning_rate: LearningRate, boxed: Any) -> optax.GradientTransformation:
        """Return the transformation for parameters like these.

        Parameters
        ----------
        learning_rate
            Step → learning rate.
        boxed
            The (abstract) parameters, each with the names of its axes: an optimizer may treat them
            by their role. The transformation itself is given plain arrays of the same shapes.
        """


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

    def build(self, learning_rate: LearningRate, boxed: Any) -> optax.GradientTransformation:
        """Return clipping by global norm, then AdamW; matrices decay."""
        return self._around(self._adam(), learning_rate, boxed)

    def _adam(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.beta1, self.beta2, self.eps)

    def _around(
        self, direction: optax.GradientTransformation, learning_rate: LearningRate, boxed: Any
    ) -> optax.GradientTransformation:
        """Return `direction` between clipping, which sees all gradients at once, and decay."""
        clip = optax.identity()
        if self.grad_clip is not None:
            clip = optax.clip_by_global_norm(self.grad_clip)
        decay = optax.add_decayed_weights(self.weight_decay, matrices(boxed))
        return optax.chain(clip, direction, decay, optax.scale_by_learning_rate(learning_rate))


@dataclass(frozen=True)
class Muon(AdamW):
    """Matrices step along their orthogonalised momentum, all else by AdamW.

    Newton–Schulz sets the singular values of the momentum near 1 (Jordan et al. 2024,
    https://kellerjordan.github.io/posts/muon/). Of a fused parameter each matrix is orthogonalised
    on its own, as if it were stored alone: every layer, and q, k and v. Embeddings, norms, biases
    and parameters whose axes have no names are AdamW's.

    Updates are scaled to the root mean square of AdamW's, so that both share one learning rate and
    one weight decay (Liu et al., arXiv:2502.16982, §2.2).
    """

    momentum: float = field(
        "optimization/muon_momentum",
        default=0.95,
        ge=0.0,
        le=0.9999,
        help="memory of the gradient that is orthogonalised (Nesterov's, float32)",
    )
    iterations: int = field(
        "optimization/muon_iterations", default=5, ge=1, le=20, help="steps of Newton–Schulz"
    )
    rms: float = field(
        "optimization/muon_rms",
        default=0.2,
        ge=0.0,
        log=True,
        help="root mean square of a matrix's update, times the lr; AdamW's is 0.2 to 0.4",
    )

    def build(self, learning_rate: LearningRate, boxed: Any) -> optax.GradientTransformation:
        """Return clipping by global norm, then Muon or AdamW for each parameter."""
        hidden = hidden_matrices(boxed)
        kinds = jax.tree.map(
            lambda axes: "adam" if isinstance(axes, optax.MaskedNode) else "muon",
            hidden,
            is_leaf=_is_axes,
        )
        muon = optax.chain(
            optax.contrib.scale_by_muon(
                ns_steps=self.iterations,
                beta=self.momentum,
                mu_dtype=jnp.float32,
                weight_dimension_numbers=hidden,
            ),
            _scale_to_rms(self.rms, hidden),
        )
        direction = optax.partition({"muon": muon, "adam": self._adam()}, kinds)
        return self._around(direction, learning_rate, boxed)


@dataclass(frozen=True)
class ByName(Muon):
    """The optimizer that the configuration names; its fields are those of all of them."""

    name: Literal["adamw", "muon"] = field(
        "optimization/optimizer",
        default="adamw",
        help="muon: for matrices, with adamw for the rest",
    )

    def build(self, learning_rate: LearningRate, boxed: Any) -> optax.GradientTransformation:
        """Return what the named optimizer makes of these values."""
        chosen = {"adamw": AdamW, "muon": Muon}[self.name]
        return chosen.build(self, learning_rate, boxed)


def matrices(boxed: Any) -> Any:
    """Return, for boxed parameters, the tree of which are matrices: those that decay.

    Biases and norms are not, whatever their rank: a layer scan adds an axis to each, and a bias of
    heads has two of its own.
    """

    def is_matrix(parameter: str, leaf: Any) -> bool:
        if parameter.endswith(NEVER_DECAYED):
            return False
        axes = getattr(leaf, "names", None)
        if axes is None:
            return len(leaf.shape) >= 2
        return sum(axis != "layers" for axis in axes) >= 2

    return _by_name(is_matrix, boxed)


def hidden_matrices(boxed: Any) -> Any:
    """Return, for boxed parameters, how each is a stack of matrices from features to features.

    Returns
    -------
    The tree of the parameters, with which axes are a matrix's rows and which its columns:
    (L, D, 3, H, K) is L × 3 matrices of (D, H·K), and (L, H, K, D) is L of (H·K, D). A
    `optax.MaskedNode` stands for what is none: embeddings, norms, biases and unnamed axes.
    """

    def axes_of(parameter: str, leaf: Any) -> Any:
        sides: dict[str, list[int]] = {}
        for index, axis in enumerate(getattr(leaf, "names", None) or ()):
            if axis in SIDES:
                sides.setdefault(SIDES[axis], []).append(index)
            elif axis == "vocab":
                return optax.MaskedNode()
        if parameter.endswith(NEVER_DECAYED) or len(sides) != 2:
            return optax.MaskedNode()
        rows, columns = map(tuple, sides.values())
        return optax.contrib.MuonDimensionNumbers(rows, columns)

    return _by_name(axes_of, boxed)


def _scale_to_rms(rms: float, hidden: Any) -> optax.GradientTransformation:
    """Return what gives orthogonal matrices this root mean square: one (m, n) has 1 / √max(m, n)."""

    def scale(update: jax.Array, axes: optax.contrib.MuonDimensionNumbers) -> jax.Array:
        sides = (math.prod(update.shape[axis] for axis in side) for side in axes)
        return update * (rms * max(sides) ** 0.5)

    return optax.stateless(lambda updates, _: jax.tree.map(scale, updates, hidden))


def _by_name(function: Callable[[str, Any], Any], boxed: Any) -> Any:
    """Return the tree of `function(name of the parameter, boxed leaf)`."""

    def of_path(path: tuple[Any, ...], leaf: Any) -> Any:
        names = [str(getattr(part, "key", getattr(part, "name", part))) for part in path]
        return function(next(name for name in reversed(names) if name != "value"), leaf)

    return jax.tree_util.tree_map_with_path(
        of_path, boxed, is_leaf=lambda leaf: isinstance(leaf, nn.meta.AxisMetadata)
    )


def _is_axes(leaf: Any) -> bool:
    return isinstance(leaf, optax.contrib.MuonDimensionNumbers | optax.MaskedNode)
