"""What a GPT must hold, each value worked out apart from the model."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theseus.config import ConfigError, build, configuration, configure, field, load
from theseus.model.layers import cross_entropy
from theseus.model.layers.attention import causal_attention
from theseus.model.layers.backend import has_flash
from theseus.model.layers.rotary import rotate, rotation
from theseus.model.models import GPT

SMALL = {"n_embd": 32, "n_layers": 2, "n_head": 4, "block_size": 16, "vocab_size": 50}


def small(cls: type[Any] = GPT, **values: Any) -> Any:
    config = build(cls)
    load(config, {"architecture": {**SMALL, **values}})
    with configuration(config):
        return configure(cls)


@cache
def init(model: Any) -> Any:
    tokens = jnp.zeros((1, 2), jnp.int32)
    return nn.meta.unbox(jax.jit(model.init)(jax.random.key(0), tokens))


def apply(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply compiled: op by op, the first call of each operation costs more than all of them."""
    return _compiled(model, kwargs.pop("method", None))(args, kwargs)


@cache
def _compiled(model: Any, method: Any) -> Any:
    return jax.jit(lambda args, kwargs: model.apply(*args, **kwargs, method=method))


def tokens_of(rows: int = 2, length: int = 16, seed: int = 1) -> jax.Array:
    return jax.random.randint(jax.random.key(seed), (rows, length), 0, 50)


def test_the_defaults_are_gpt2_small() -> None:
    config = build(GPT)
    with configuration(config):
        model = configure(GPT)
    assert (model.n_embd, model.n_layers, model.heads, model.hidden) == (768, 12, 12, 3072)
    assert (model.block_size, model.vocab_size, model.bias) == (1024, 50_304, True)
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))
    count = sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
    # 124,439,808 with 50,257 rows of embedding (Hugging Face's `gpt2`); ours has 47 rows more.
    assert count == 124_439_808 + 47 * 768


@pytest.mark.parametrize(("n_embd", "heads"), [(16, 1), (64, 1), (128, 2), (768, 12), (100, 1)])
def test_heads_follow_the_width_unless_set(n_embd: int, heads: int) -> None:
    assert small(n_embd=n_embd, n_head=None).heads == heads


def test_heads_that_do_not_divide_are_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"n_head = 6 does not divide .*n_embd = 128.*1 2 4 8 16"):
        small(n_embd=128, n_head=6).check()
    with pytest.raises(ConfigError, match="even size"):
        small(n_embd=12, n_head=4, rope=True).check()


@pytest.mark.parametrize("rope", [False, True])
def test_no_logit_depends_on_a_later_token(rope: bool) -> None:
    model = small(rope=rope)
    variables, tokens = init(model), tokens_of()
    embedding = variables["params"]["token_embedding"]

    def logit_sum(x: jax.Array, at: int) -> jax.Array:
        def hooks(m: GPT, x: jax.Array) -> jax.Array:
            positions = jnp.arange(16)[None]
            return m.unembed(m.decode(x, positions))

        return apply(model, variables, x, method=hooks)[:, at].sum()

    gradient = jax.jit(jax.grad(logit_sum), static_argnums=1)(embedding[tokens], 7)
    influence = jnp.abs(gradient).sum((0, 2))
    assert (influence[8:] == 0).all()
    assert (influence[:8] > 0).all()


@pytest.mark.parametrize("rope", [False, True])
def test_packed_documents_that_are_kept_apart_do_not_see_each_other(rope: bool) -> None:
    model = small(rope=rope)
    variables, tokens = init(model), tokens_of()
    segments = jnp.concatenate([jnp.full((2, 9), 1), jnp.full((2, 7), 2)], axis=1)
    positions = jnp.concatenate([jnp.arange(9), jnp.arange(7)])[None]
    other = tokens.at[:, :9].set((tokens[:, :9] + 1) % 50)
    packed = apply(model, variables, tokens, positions, segments)
    changed = apply(model, variables, other, positions, segments)
    assert (packed[:, 9:] == changed[:, 9:]).all()
    alone = apply(model, variables, tokens[:, 9:])
    np.testing.assert_allclose(packed[:, 9:], alone, rtol=1e-4, atol=1e-5)


def test_a_row_of_padding_gives_finite_logits_loss_and_gradients() -> None:
    model = small()
    variables = init(model)
    tokens, zeros = tokens_of(), jnp.zeros((2, 16), jnp.int32)

    def loss(variables: Any) -> jax.Array:
        return apply(model, variables, tokens, tokens, zeros, zeros, zeros, method="batch_loss")[0]

    value, gradients = jax.jit(jax.value_and_grad(loss))(variables)
    assert value == 0
    assert all((g == 0).all() for g in jax.tree.leaves(gradients))
    assert jnp.isfinite(apply(model, variables, tokens, zeros, zeros)).all()


def test_attention_is_softmax_of_scaled_products_over_the_past() -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 3, 5, 4))
    expected = np.zeros_like(q)
    for b in range(2):
        for h in range(3):
            for t in range(5):
                scores = k[b, h, : t + 1] @ q[b, h, t] / 2.0  # √4
                weights = np.exp(scores - scores.max())
                expected[b, h, t] = weights / weights.sum() @ v[b, h, : t + 1]
    found = causal_attention(*(jnp.asarray(x, jnp.float32) for x in (q, k, v)))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_the_gradients_of_attention_are_those_of_its_definition(packed: bool) -> None:
    q, k, v, weights = jax.random.normal(jax.random.key(0), (4, 2, 3, 7, 4))
    segments = jnp.array([[1, 1, 2, 2, 2, 3, 0], [1, 1, 1, 1, 1, 0, 0]]) if packed else None

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        seen = jnp.tril(jnp.ones((7, 7), bool))[None, None]
        if segments is not None:
            seen = seen & (segments[:, None, :, None] == segments[:, None, None, :])
        exponentials = jnp.exp(jnp.where(seen, q @ k.swapaxes(-1, -2) / 2.0, -jnp.inf))  # √4
        return (exponentials / exponentials.sum(-1, keepdims=True)) @ v

    mine = jax.grad(lambda *a: (causal_attention(*a, segments) * weights).sum(), (0, 1, 2))
    theirs = jax.grad(lambda *a: (plain(*a) * weights).sum(), (0, 1, 2))
    for found, expected in zip(mine(q, k, v), theirs(q, k, v), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("backend", "capability", "head_size", "flash"),
    [
        ("gpu", "9.0", 64, True),
        ("gpu", "8.0", 128, True),
        ("gpu", "10.0", 64, True),
        ("gpu", "7.0", 64, False),  # V100
        ("gpu", "7.5", 64, False),  # T4
        ("gpu", "gfx90a", 64, False),  # AMD
        ("gpu", "9.0", 20, False),
        ("gpu", "9.0", 256, False),
        ("cpu", "", 64, False),
    ],
)
def test_flash_attention_is_asked_for_only_where_there_is_a_kernel(
    backend: str, capability: str, head_size: int, flash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability=capability)])
    assert has_flash(head_size) is flash


def test_rotary_angles_are_exact_far_into_the_context() -> None:
    # At position 4095 the angle of the fastest pair is 4095 radians: bfloat16 would be off by 8.
    x = jnp.ones((1, 1, 4096, 4), jnp.bfloat16)
    turned = rotate(x, rotation(jnp.arange(4096)[None], 4))[0, 0, 4095]
    frequencies = np.array([1.0, 10_000.0**-0.5])
    angles = 4095 * frequencies
    expected = np.concatenate([np.cos(angles) - np.sin(angles), np.cos(angles) + np.sin(angles)])
    np.testing.assert_allclose(turned.astype(jnp.float32), expected, atol=0.01)


def test_rotary_scores_depend_on_distance_alone() -> None:
    q, k = jax.random.normal(jax.random.key(0), (2, 1, 1, 1, 8))
    turn = jax.jit(lambda x, p: rotate(x, rotation(p[None, None], 8)))
    near = [turn(x, jnp.array(p)) for x, p in ((q, 5), (k, 3))]
    far = [turn(x, jnp.array(p)) for x, p in ((q, 105), (k, 103))]
    np.testing.assert_allclose((near[0] * near[1]).sum(), (far[0] * far[1]).sum(), rtol=1e-4)


def test_dropout_acts_only_where_a_key_is_given() -> None:
    model = small(dropout=0.5)
    variables, tokens = init(model), tokens_of()
    still = apply(model, variables, tokens)
    assert (still == apply(model, variables, tokens)).all()
    first = apply(model, variables, tokens, rngs={"dropout": jax.random.key(0)})
    second = apply(model, variables, tokens, rngs={"dropout": jax.random.key(1)})
    assert not jnp.allclose(first, still)
    assert not jnp.allclose(first, second)
    without = small(dropout=0.0)
    np.testing.assert_allclose(still, apply(without, variables, tokens), rtol=1e-6)


@pytest.mark.parametrize("chunk_logits", [2**23, 16 * 50, 50])
def test_chunked_cross_entropy_is_that_of_all_logits(
    chunk_logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cross_entropy.CHUNK_LOGITS, "cpu", chunk_logits)
    model = small()
    variables, tokens, targets = init(model), tokens_of(), tokens_of(seed=2)
    weights = jnp.ones((2, 16)).at[0, 3:].set(0)

    def whole(variables: Any) -> jax.Array:
        logits = model.apply(variables, tokens)
        log_probabilities = jax.nn.log_softmax(logits)
        picked = jnp.take_along_axis(log_probabilities, targets[..., None], -1)[..., 0]
        return -(picked * weights).sum()

    def chunked(variables: Any) -> jax.Array:
        return model.apply(variables, tokens, targets, weights, method="batch_loss")[0]

    expected, expected_gradients = jax.jit(jax.value_and_grad(whole))(variables)
    found, found_gradients = jax.jit(jax.value_and_grad(chunked))(variables)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    forward = jax.jit(lambda v: model.apply(v, tokens, targets, weights, method="batch_loss"))
    total, count = forward(variables)
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    assert count == 19
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        found_gradients,
        expected_gradients,
    )


class Scaled(GPT):
    logit_scale: float = field("architecture/logit_scale", default=1.0)

    def unembed(self, x: jax.Array) -> jax.Array:
        return super().unembed(x) * self.logit_scale


def test_an_overridden_hook_reaches_logits_and_loss() -> None:
    model, plain = small(Scaled, logit_scale=0.5), small()
    variables, tokens = init(model), tokens_of()
    logits = apply(plain, variables, tokens)
    np.testing.assert_allclose(apply(model, variables, tokens), logits * 0.5, rtol=1e-6)
    expected = -jnp.take_along_axis(jax.nn.log_softmax(logits * 0.5), tokens[..., None], -1).sum()
    found, _ = apply(model, variables, tokens, tokens, jnp.ones((2, 16)), method="batch_loss")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_model_is_applied_after_its_configuration_has_ended() -> None:
    model = small(n_embd=16)
    assert apply(model, init(model), tokens_of()).shape == (2, 16, 50)


def test_initial_weights_depend_on_the_key_alone() -> None:
    model = small()
    one = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 2), jnp.int32))
    other = jax.jit(model.init)(jax.random.key(0), jnp.ones((3, 16), jnp.int32))
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), one, other))


@pytest.mark.parametrize("remat", ["dots", "block"])
def test_recomputation_changes_no_gradient(remat: str) -> None:
    plain, again = small(), small()
    again = again.clone(remat=remat)
    variables, tokens = init(plain), tokens_of()

    def loss(model: Any) -> Any:
        def total(variables: Any) -> jax.Array:
            rngs = {"dropout": jax.random.key(5)}
            ones = jnp.ones((2, 16))
            return apply(model, variables, tokens, tokens, ones, rngs=rngs, method="batch_loss")[0]

        return jax.jit(jax.grad(total))(variables)

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        loss(plain),
        loss(again),
    )


def test_bfloat16_computes_in_it_and_keeps_weights_and_logits_in_float32() -> None:
    config = build(GPT)
    load(config, {"architecture": {**SMALL, "dtype": {"activation": "bfloat16"}}})
    with configuration(config):
        model = configure(GPT)
    variables, tokens = init(model), tokens_of()
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}
    logits = apply(model, variables, tokens)
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, apply(small(), variables, tokens), atol=0.05)
