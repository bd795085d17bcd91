"""One transformer block: attention and MLP, each normalised first and added to the residual."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from theseus.model.layers.attention import CausalSelfAttention
from theseus.model.layers.constrain import constrain
from theseus.model.layers.mlp import MLP
from theseus.model.layers.norm import LayerNorm
from theseus.model.layers.rotary import Rotation


class Block(nn.Module):
    """Map the residual stream (B, T, D) to the next; shaped for `nn.scan` over layers.

    Dropout acts when the caller gives a `dropout` random key, and only then.
    """

    n_head: int
    n_layers: int
    intermediate_size: int
    bias: bool
    dropout: float
    layer_norm_eps: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(
        self, x: jax.Array, rotation: Rotation | None, segments: jax.Array | None
    ) -> tuple[jax.Array, None]:
        """Return the new residual stream, and no per-layer output."""
        drop = nn.Dropout(self.dropout, deterministic=not self.has_rng("dropout"))
        attention = CausalSelfAttention(
            self.n_head, self.n_layers, self.bias, self.dtype, name="attention"
        )
        mlp = MLP(self.intermediate_size, self.n_layers, self.bias, self.dtype, name="mlp")
        y = LayerNorm(self.layer_norm_eps, self.bias, self.dtype, name="attention_norm")(x)
        x = constrain(x + drop(attention(y, rotation, segments)), "batch")
        y = LayerNorm(self.layer_norm_eps, self.bias, self.dtype, name="mlp_norm")(x)
        return constrain(x + drop(mlp(y)), "batch"), None
