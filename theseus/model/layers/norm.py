"""Layer normalisation (Ba et al., arXiv:1607.06450)."""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from theseus.model.layers.initializers import ones, zeros


class LayerNorm(nn.Module):
    """Normalise over the last axis, in float32; the result has the dtype that is asked for."""

    epsilon: float
    bias: bool
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map x (..., D) to (..., D)."""
        width = x.shape[-1]
        scale = self.param("scale", ones(("embed",)), (width,), jnp.float32)
        bias = jnp.zeros((width,), jnp.float32)
        if self.bias:
            bias = self.param("bias", zeros(("embed",)), (width,), jnp.float32)
        return layer_norm(self.epsilon, self.dtype, x, scale, bias)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def layer_norm(
    epsilon: float, dtype: jnp.dtype, x: jax.Array, scale: jax.Array, bias: jax.Array
) -> jax.Array:
    """Return (x − mean) / √(variance + ε) · scale + bias over the last axis, as `dtype`.

    Its backward pass keeps x alone, which the residual stream holds anyway; differentiated step by
    step it would keep four float32 arrays of that size.

    Parameters
    ----------
    x
        (..., D).
    scale, bias
        (D,), float32.
    """
    return _layer_norm_forward(epsilon, dtype, x, scale, bias)[0]


def _normalised(epsilon: float, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return (x − mean) · r and r = 1 / √(variance + ε), float32."""
    x = x.astype(jnp.float32)
    centred = x - x.mean(-1, keepdims=True)
    factor = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + epsilon)
    return centred * factor, factor


def _layer_norm_forward(
    epsilon: float, dtype: jnp.dtype, x: jax.Array, scale: jax.Array, bias: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    normed, _ = _normalised(epsilon, x)
    return (normed * scale + bias).astype(dtype), (x, scale)


def _layer_norm_backward(
    epsilon: float, dtype: jnp.dtype, saved: tuple[jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    del dtype  # the cotangent has it
    x, scale = saved
    normed, factor = _normalised(epsilon, x)
    cotangent = cotangent.astype(jnp.float32)
    others = tuple(range(x.ndim - 1))
    d_normed = cotangent * scale
    along = normed * (d_normed * normed).mean(-1, keepdims=True)
    d_x = factor * (d_normed - d_normed.mean(-1, keepdims=True) - along)
    return d_x.astype(x.dtype), (cotangent * normed).sum(others), cotangent.sum(others)


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)
