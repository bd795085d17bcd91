"""GPT: a decoder-only transformer in the shape of GPT-2.

Axes: B batch, T time, D embedding, H heads, K head size, F hidden, V vocabulary, L layers.
"""

from __future__ import annotations

from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from theseus.config import ConfigError, field
from theseus.model.layers.backend import backend
from theseus.model.layers.block import Block
from theseus.model.layers.constrain import constrain
from theseus.model.layers.cross_entropy import chunked_cross_entropy
from theseus.model.layers.initializers import normal
from theseus.model.layers.norm import LayerNorm
from theseus.model.layers.rotary import Rotation, rotation

HEAD_SIZE = 64  # GPT-2's, and what flash-attention kernels are fastest at
VOCAB_SIZE = 50_304  # GPT-2's 50,257 rounded up to a multiple of 128, so that it divides


class GPT(nn.Module):
    """A GPT whose architecture is its value: it can be applied wherever it is.

    The defaults are GPT-2 small (Radford et al. 2019). A subclass overrides any of the hooks
    `embed`, `decode`, `unembed` and `loss`, and may add fields.

    Dropout acts when `apply` is given `rngs={"dropout": key}`; without one the model is the same
    at every call, as validation needs it.
    """

    n_embd: int = field(
        "architecture/n_embd", default=768, ge=1, log=True, help="width of the residual stream"
    )
    n_layers: int = field(
        "architecture/n_layers", default=12, ge=1, log=True, help="number of blocks"
    )
    n_head: int | None = field(
        "architecture/n_head",
        default=None,
        ge=1,
        help="attention heads; unset: one per 64 of n_embd, at least one",
    )
    block_size: int = field(
        "architecture/block_size", default=1024, ge=1, log=True, help="tokens of context"
    )
    vocab_size: int = field(
        "architecture/vocab_size",
        default=VOCAB_SIZE,
        ge=1,
        log=True,
        help="rows of the embedding; at least the tokenizer's",
    )
    intermediate_size: int | None = field(
        "architecture/intermediate_size",
        default=None,
        ge=1,
        help="hidden width of the MLP; unset: 4 × n_embd",
    )
    rope: bool = field(
        "architecture/rope",
        default=False,
        help="rotary positions in place of learned ones",
    )
    bias: bool = field("architecture/bias", default=True, help="biases in layers and norms")
    dropout: float = field(
        "architecture/dropout", default=0.0, ge=0.0, le=0.99, help="dropped share in training"
    )
    layer_norm_eps: float = field(
        "architecture/layer_norm_eps", default=1e-5, ge=0.0, log=True, help="added to the variance"
    )
    activation_dtype: Literal["auto", "float32", "bfloat16"] = field(
        "architecture/dtype/activation",
        default="auto",
        help="what is computed in (weights stay float32); auto: bfloat16 on GPU and TPU",
    )
    remat: Literal["none", "dots", "block"] = field(
        "training/remat",
        default="none",
        help="what the backward pass computes again: nothing, all but matrix products, whole blocks",
    )

    @property
    def heads(self) -> int:
        """H: `n_head`, or one head per 64 of the width."""
        return self.n_head or max(1, self.n_embd // HEAD_SIZE)

    @property
    def hidden(self) -> int:
        """F: the width of the MLP."""
        return self.intermediate_size or 4 * self.n_embd

    @property
    def dtype(self) -> jnp.dtype:
        """What activations are computed in here; parameters are float32."""
        return self.computes_in(backend())

    @property
    def stream_dtype(self) -> jnp.dtype:
        """What the residual stream is kept in here: float32 on a CPU, `dtype` elsewhere.

        A CPU has no bfloat16 arithmetic: each addition to the stream would go to float32 and back.
        """
        return jnp.dtype("float32") if backend() == "cpu" else self.dtype

    def computes_in(self, backend: str) -> jnp.dtype:
        """Return what activations are computed in on a backend: "cpu", "gpu" or "tpu"."""
        if self.activation_dtype == "auto":
            return jnp.dtype("float32" if backend == "cpu" else "bfloat16")
        return jnp.dtype(self.activation_dtype)

    def check(self) -> None:
        """Refuse an architecture that cannot be built, naming the values that can.

        Raises
        ------
        ConfigError
            When the heads do not divide the width, or rotary heads have an odd size.
        """
        if self.n_embd % self.heads:
            fitting = [h for h in range(1, self.n_embd + 1) if self.n_embd % h == 0]
            told = " ".join(map(str, fitting if len(fitting) <= 12 else [*fitting[:11], "…"]))
            msg = (
                f"architecture.n_head = {self.heads} does not divide "
                f"architecture.n_embd = {self.n_embd}; these do: {told}"
            )
            raise ConfigError(msg, "architecture.n_head")
        if self.rope and self.n_embd // self.heads % 2:
            msg = (
                f"architecture.rope needs heads of even size; architecture.n_embd = {self.n_embd} "
                f"over {self.heads} heads gives {self.n_embd // self.heads}"
            )
            raise ConfigError(msg, "architecture.rope")

    def setup(self) -> None:
        """Declare the parameters; a subclass that adds some calls `super().setup()`."""
        shape = (self.vocab_size, self.n_embd)
        self.token_embedding = self.param(
            "token_embedding", normal(("vocab", "embed")), shape, jnp.float32
        )
        if not self.rope:
            self.position_embedding = self.param(
                "position_embedding",
                normal((None, "embed")),
                (self.block_size, self.n_embd),
                jnp.float32,
            )
        self.embedding_dropout = nn.Dropout(self.dropout)
        self.blocks = _layers(self.remat, self.n_layers)(
            n_head=self.heads,
            n_layers=self.n_layers,
            intermediate_size=self.hidden,
            bias=self.bias,
            dropout=self.dropout,
            layer_norm_eps=self.layer_norm_eps,
            dtype=self.dtype,
        )
        self.final_norm = LayerNorm(self.layer_norm_eps, self.bias, self.dtype)

    def embed(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """Hook: tokens (B, T) and positions (B or 1, T) to the residual stream (B, T, D)."""
        x = self.token_embedding[tokens].astype(self.stream_dtype)
        if not self.rope:
            x = x + self.position_embedding[positions].astype(self.stream_dtype)
        return constrain(
            self.embedding_dropout(x, deterministic=not self.has_rng("dropout")), "batch"
        )

    def decode(
        self, x: jax.Array, positions: jax.Array, segments: jax.Array | None = None
    ) -> jax.Array:
        """Hook: through all blocks and the last norm, (B, T, D) to (B, T, D)."""
        turn: Rotation | None = None
        if self.rope:
            turn = rotation(positions, self.n_embd // self.heads)
        x, _ = self.blocks(x, turn, segments)
        normed: jax.Array = self.final_norm(x)
        return normed

    def unembed(self, x: jax.Array) -> jax.Array:
        """Hook: logits (..., V) of (..., D), each position on its own; the embedding is tied."""
        kernel = self.token_embedding.astype(self.dtype)
        return jnp.einsum("...d,vd->...v", x, kernel, preferred_element_type=jnp.float32)

    def loss(
        self, x: jax.Array, targets: jax.Array, weights: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Hook: (sum of losses, sum of weights) of decoded x (B, T, D) and targets (B, T)."""
        module, variables = self.unbind()

        def unembed(variables: Any, rows: jax.Array) -> jax.Array:
            logits: Any = module.apply(variables, rows, method="unembed")
            return logits

        return chunked_cross_entropy(unembed, variables, x, targets, weights, self.vocab_size)

    def __call__(
        self,
        tokens: jax.Array,
        positions: jax.Array | None = None,
        segments: jax.Array | None = None,
    ) -> jax.Array:
        """Return the logits (B, T, V) of tokens (B, T)."""
        return self.unembed(self._decoded(tokens, positions, segments))

    def next_logits(self, tokens: jax.Array, index: jax.Array | int) -> jax.Array:
        """Return the logits (B, V) of what follows position `index` of tokens (B, T)."""
        x = self._decoded(tokens, None, None)
        return self.unembed(jax.lax.dynamic_index_in_dim(x, index, axis=1, keepdims=False))

    def batch_loss(
        self,
        tokens: jax.Array,
        targets: jax.Array,
        weights: jax.Array,
        positions: jax.Array | None = None,
        segments: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """Return (sum of losses, sum of weights) over a batch, all (B, T)."""
        return self.loss(self._decoded(tokens, positions, segments), targets, weights)

    def _decoded(
        self, tokens: jax.Array, positions: jax.Array | None, segments: jax.Array | None
    ) -> jax.Array:
        if positions is None:
            positions = jnp.arange(tokens.shape[-1])[None]
        return self.decode(self.embed(tokens, positions), positions, segments)


def _layers(remat: str, length: int) -> Any:
    """Return the block scanned over layers: one trace and one compilation however deep."""
    block: Any = Block
    if remat != "none":
        policies = {"dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable, "block": None}
        block = nn.remat(Block, policy=policies[remat], prevent_cse=False)
    return nn.scan(
        block,
        variable_axes={"params": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=(nn.broadcast, nn.broadcast),
        length=length,
        metadata_params={nn.PARTITION_NAME: "layers"},
    )
