"""Causal self-attention (Vaswani et al., arXiv:1706.03762)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from theseus.model.layers.backend import has_flash
from theseus.model.layers.constrain import constrain
from theseus.model.layers.initializers import STDDEV, normal, zeros
from theseus.model.layers.rotary import Rotation, rotate


class CausalSelfAttention(nn.Module):
    """Each position attends to itself and to those before it, within its own document if asked.

    Query, key and value are one parameter of shape (D, 3, H, K): one matrix product, and the axis
    that tensor parallelism splits (H) lies whole in each of the three.
    """

    n_head: int
    n_layers: int
    bias: bool
    dtype: jnp.dtype

    @nn.compact
    def __call__(
        self, x: jax.Array, rotation: Rotation | None, segments: jax.Array | None
    ) -> jax.Array:
        """Map x (B, T, D) to (B, T, D); `segments` (B, T) keeps documents apart."""
        width = x.shape[-1]
        size = width // self.n_head
        qkv_axes = ("embed", None, "heads", "head_size")
        kernel = self.param("qkv", normal(qkv_axes), (width, 3, self.n_head, size), jnp.float32)
        qkv = jnp.einsum("btd,dchk->cbhtk", x, kernel.astype(self.dtype))
        if self.bias:
            shape = (3, self.n_head, size)
            bias = self.param("qkv_bias", zeros((None, "heads", "head_size")), shape, jnp.float32)
            qkv = qkv + bias.astype(self.dtype)[:, None, :, None, :]
        qkv = constrain(qkv, None, "batch", "heads")
        q, k, v = qkv
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        y = constrain(causal_attention(q, k, v, segments), "batch", "heads")
        # Residual branches start smaller the deeper the model, as GPT-2 does (§2.3 of its paper).
        out = normal(("heads", "head_size", "embed"), STDDEV / (2 * self.n_layers) ** 0.5)
        projection = self.param("out", out, (self.n_head, size, width), jnp.float32)
        y = jnp.einsum("bhtk,hkd->btd", y, projection.astype(self.dtype))
        if self.bias:
            y = y + self.param("out_bias", zeros(("embed",)), (width,), jnp.float32).astype(y.dtype)
        return y


def causal_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array | None = None
) -> jax.Array:
    """Return softmax(q kᵀ / √K) v over the allowed positions.

    Parameters
    ----------
    q, k, v
        (B, H, T, K).
    segments
        (B, T) document numbers within the row; 0 is padding. Positions of different documents do
        not see each other. None: the whole row is one document.

    Returns
    -------
    (B, H, T, K), finite also where a row is all padding: a position always sees itself.
    """
    if segments is None and q.dtype == jnp.bfloat16 and has_flash(q.shape[-1]):
        flash = jax.nn.dot_product_attention(  # (B, T, H, K) is its layout
            *(jnp.swapaxes(t, 1, 2) for t in (q, k, v)), is_causal=True, implementation="cudnn"
        )
        return jnp.swapaxes(flash, 1, 2)
    return _attention(q, k, v, segments)


@jax.custom_vjp
def _attention(q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array | None) -> jax.Array:
    """Attention whose backward pass keeps one array of scores: the weights, as they were used.

    Differentiated step by step it would keep the scores, their exponentials and the mask as well,
    for every layer, and read them all again.
    """
    return _attention_forward(q, k, v, segments)[0]


def _scaled(q: jax.Array) -> jax.Array:
    return q * q.shape[-1] ** -0.5


def _attention_forward(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array | None
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    length = q.shape[-2]
    scores = jnp.einsum("bhqk,bhsk->bhqs", _scaled(q), k, preferred_element_type=jnp.float32)
    allowed = jnp.tril(jnp.ones((length, length), bool))[None, None]
    if segments is not None:
        allowed = allowed & (segments[:, None, :, None] == segments[:, None, None, :])
    scores = jnp.where(allowed, scores, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    y = jnp.einsum("bhqs,bhsk->bhqk", weights, v)
    return y, (q, k, v, weights, y)


def _attention_backward(
    saved: tuple[jax.Array, ...], cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, None]:
    q, k, v, weights, y = saved
    d_v = jnp.einsum("bhqs,bhqk->bhsk", weights, cotangent)
    d_weights = jnp.einsum("bhqk,bhsk->bhqs", cotangent, v, preferred_element_type=jnp.float32)
    # What softmax subtracts is Σ_s w·dw, and that is y·dy (Dao et al., arXiv:2205.14135, B.2).
    along = (cotangent.astype(jnp.float32) * y.astype(jnp.float32)).sum(-1, keepdims=True)
    d_scores = (weights.astype(jnp.float32) * (d_weights - along)).astype(q.dtype)
    d_q = _scaled(jnp.einsum("bhqs,bhsk->bhqk", d_scores, k))
    d_k = jnp.einsum("bhqs,bhqk->bhsk", d_scores, _scaled(q))
    return d_q, d_k, d_v, None


_attention.defvjp(_attention_forward, _attention_backward)
