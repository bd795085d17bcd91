"""Layer normalisation (Ba et al., arXiv:1607.06450)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from theseus.model.layers.initializers import ones, zeros


class LayerNorm(nn.Module):
    """Normalise over the last axis, in float32; the result has the dtype of the input."""

    epsilon: float
    bias: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map x (..., D) to (..., D)."""
        width = x.shape[-1]
        scale = self.param("scale", ones(("embed",)), (width,), jnp.float32)
        x32 = x.astype(jnp.float32)
        mean = x32.mean(-1, keepdims=True)
        variance = jnp.square(x32 - mean).mean(-1, keepdims=True)
        y = (x32 - mean) * jax.lax.rsqrt(variance + self.epsilon) * scale
        if self.bias:
            y = y + self.param("bias", zeros(("embed",)), (width,), jnp.float32)
        return y.astype(x.dtype)
