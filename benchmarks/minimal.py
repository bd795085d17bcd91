"""A hand-written JAX training step of the same GPT: what the trainer is compared with.

No modules, no configuration, no records: plain arrays, one loss function, AdamW by optax. Axes:
B rows, T time, D embedding, H heads, K head size, F hidden, V vocabulary, L layers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax


class Sizes(NamedTuple):
    """The sizes of the model and of one step."""

    n_embd: int = 128
    n_layers: int = 4
    n_head: int = 2
    block_size: int = 128
    vocab_size: int = 512
    accumulation: int = 2
    rows: int = 4


def initial(sizes: Sizes, seed: int = 0) -> dict[str, Any]:
    """Return the parameters, one array per layer and kind."""
    draw = np.random.default_rng(seed)
    d, h, f = sizes.n_embd, sizes.n_head, 4 * sizes.n_embd
    k = d // h

    def normal(*shape: int, deviation: float = 0.02) -> jax.Array:
        return jnp.asarray(draw.normal(0, deviation, shape), jnp.float32)

    small = 0.02 / (2 * sizes.n_layers) ** 0.5
    layers = [
        {
            "norm1": (jnp.ones(d), jnp.zeros(d)),
            "qkv": normal(d, 3, h, k),
            "qkv_bias": jnp.zeros((3, h, k)),
            "out": normal(h, k, d, deviation=small),
            "out_bias": jnp.zeros(d),
            "norm2": (jnp.ones(d), jnp.zeros(d)),
            "up": normal(d, f),
            "up_bias": jnp.zeros(f),
            "down": normal(f, d, deviation=small),
            "down_bias": jnp.zeros(d),
        }
        for _ in range(sizes.n_layers)
    ]
    return {
        "tokens": normal(sizes.vocab_size, d),
        "positions": normal(sizes.block_size, d),
        "layers": layers,
        "norm": (jnp.ones(d), jnp.zeros(d)),
    }


def from_gpt(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `theseus.model.models.GPT`, unboxed, in the layout used here."""
    blocks = params["blocks"]

    def layer(index: int) -> dict[str, Any]:
        attention, mlp = blocks["attention"], blocks["mlp"]
        norms = {
            name: (blocks[kind]["scale"][index], blocks[kind]["bias"][index])
            for name, kind in (("norm1", "attention_norm"), ("norm2", "mlp_norm"))
        }
        return norms | {name: part[index] for name, part in {**attention, **mlp}.items()}

    return {
        "tokens": params["token_embedding"],
        "positions": params["position_embedding"],
        "layers": [layer(index) for index in range(blocks["attention"]["qkv"].shape[0])],
        "norm": (params["final_norm"]["scale"], params["final_norm"]["bias"]),
    }


def layer_norm(x: jax.Array, weights: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Normalise the last axis of x (..., D)."""
    centred = x - x.mean(-1, keepdims=True)
    scale, bias = weights
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def block(x: jax.Array, p: dict[str, Any], dtype: Any) -> jax.Array:
    """Return the residual stream (B, T, D) after one layer."""
    y = layer_norm(x, p["norm1"]).astype(dtype)
    qkv = jnp.einsum("btd,dchk->cbthk", y, p["qkv"].astype(dtype))
    qkv = qkv + p["qkv_bias"].astype(dtype)[:, None, None]
    y = jax.nn.dot_product_attention(*qkv, is_causal=True)
    x = x + jnp.einsum("bthk,hkd->btd", y, p["out"].astype(dtype)) + p["out_bias"]
    y = layer_norm(x, p["norm2"]).astype(dtype)
    y = jax.nn.gelu(y @ p["up"].astype(dtype) + p["up_bias"].astype(dtype))
    return x + y @ p["down"].astype(dtype) + p["down_bias"]


def loss(params: dict[str, Any], tokens: jax.Array, targets: jax.Array, dtype: Any) -> jax.Array:
    """Return the summed loss of tokens (B, T)."""
    x = params["tokens"][tokens] + params["positions"]
    for p in params["layers"]:
        x = block(x, p, dtype)
    x = layer_norm(x, params["norm"]).astype(dtype)
    logits = jnp.einsum(
        "btd,vd->btv", x, params["tokens"].astype(dtype), preferred_element_type=jnp.float32
    )
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).sum()


def optimizer(learning_rate: optax.ScalarOrSchedule = 6e-4) -> optax.GradientTransformation:
    """Return clipping and AdamW, as the trainer has them by default; matrices decay."""

    def decayed(params: Any) -> Any:
        def is_matrix(path: Any, _: Any) -> bool:
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            return not any(word in name for word in ("bias", "norm"))

        return jax.tree_util.tree_map_with_path(is_matrix, params)

    adamw = optax.adamw(learning_rate, b1=0.9, b2=0.95, weight_decay=0.1, mask=decayed)
    return optax.chain(optax.clip_by_global_norm(1.0), adamw)


def make_step(transformation: optax.GradientTransformation, dtype: Any = jnp.float32) -> Any:
    """Return a compiled `(params, opt_state, tokens, targets) -> (params, opt_state, loss)`.

    tokens and targets are (A, B, T); gradients are added up over the A micro-batches.
    """

    def step(params: Any, opt_state: Any, tokens: jax.Array, targets: jax.Array) -> Any:
        gradient = jax.value_and_grad(lambda p, *batch: loss(p, *batch, dtype))

        def add(carry: Any, batch: Any) -> Any:
            return jax.tree.map(jnp.add, carry, gradient(params, *batch)), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        (total, gradients), _ = jax.lax.scan(add, zero, (tokens, targets))
        gradients = jax.tree.map(lambda g: g / tokens.size, gradients)
        updates, opt_state = transformation.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, total / tokens.size

    return jax.jit(step, donate_argnums=(0, 1))
