"""The position-wise network of a block."""

from __future__ import annotations

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
        y = constrain(nn.gelu(y, approximate=True), "batch", None, "mlp")
        start = normal(("mlp", "embed"), STDDEV / (2 * self.n_layers) ** 0.5)
        down = self.param("down", start, (hidden, width), jnp.float32)
        y = y @ down.astype(self.dtype)
        if self.bias:
            bias = self.param("down_bias", zeros(("embed",)), (width,), jnp.float32)
            y = y + bias.astype(y.dtype)
        return y
