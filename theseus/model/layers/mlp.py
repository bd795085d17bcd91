"""The position-wise network of a block."""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from theseus.model.layers.constrain import constrain
from theseus.model.layers.initializers import STDDEV, normal, zeros


class MLP(nn.Module):
    """Two layers with GELU between (tanh form, as in GPT-2; Hendrycks & Gimpel, 1606.08415)."""

    intermediate_size: int
    n_layers: int
    bias: bool
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map x (B, T, D) to (B, T, D) through (B, T, F)."""
        width, hidden = x.shape[-1], self.intermediate_size
        up = self.param("up", normal(("embed", "mlp")), (width, hidden), jnp.float32)
        y = x @ up.astype(self.dtype)
        if self.bias:
            y = y + self.param("up_bias", zeros(("mlp",)), (hidden,), jnp.float32).astype(y.dtype)
        y = constrain(gelu(y), "batch", None, "mlp")
        start = normal(("mlp", "embed"), STDDEV / (2 * self.n_layers) ** 0.5)
        down = self.param("down", start, (hidden, width), jnp.float32)
        y = y @ down.astype(self.dtype)
        if self.bias:
            bias = self.param("down_bias", zeros(("embed",)), (width,), jnp.float32)
            y = y + bias.astype(y.dtype)
        return y


_SLOPE, _CUBE = (2 / math.pi) ** 0.5, 0.044715


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """Return x · Φ(x) with Φ by its tanh form, element by element, computed in float32.

    Its backward pass keeps x alone; differentiated step by step it would keep six arrays of the
    widest activation there is.
    """
    wide = x.astype(jnp.float32)
    return (0.5 * wide * (1 + _tanh_part(wide))).astype(x.dtype)


def _tanh_part(x: jax.Array) -> jax.Array:
    return jnp.tanh(_SLOPE * (x + _CUBE * x * x * x))


def _gelu_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return gelu(x), x


def _gelu_backward(x: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
    wide = x.astype(jnp.float32)
    t = _tanh_part(wide)
    inner = _SLOPE * (1 + 3 * _CUBE * wide * wide)
    derivative = 0.5 * (1 + t + wide * (1 - t * t) * inner)
    return ((cotangent.astype(jnp.float32) * derivative).astype(x.dtype),)


gelu.defvjp(_gelu_forward, _gelu_backward)
