"""Losses and gradients over micro-batches."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theseus.config import build, configuration, configure
from theseus.model.models import GPT
from theseus.training.loss import MicroBatches, StepLoss, loss_and_gradients

ROWS, LENGTH, VOCAB = 8, 16, 50


@pytest.fixture(scope="module")
def model() -> Any:
    config = build(
        GPT,
        values={
            "architecture": {"n_embd": 32, "n_layers": 2, "block_size": 16, "vocab_size": VOCAB}
        },
    )
    with configuration(config):
        return configure(GPT)


@pytest.fixture(scope="module")
def params(model: Any) -> Any:
    variables = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 2), jnp.int32))
    return nn.meta.unbox(variables)["params"]


def rows(lengths: list[int]) -> MicroBatches:
    """Rows of unequal documents: the positions from `length` on are padding."""
    draw = np.random.default_rng(0)
    tokens, targets = draw.integers(0, VOCAB, (2, ROWS, LENGTH)).astype(np.int32)
    weights = (np.arange(LENGTH) < np.array(lengths)[:, None]).astype(np.float32)
    return MicroBatches(tokens, targets, weights)


def split(batch: MicroBatches, accumulation: int) -> MicroBatches:
    return MicroBatches(
        *(None if part is None else part.reshape(accumulation, -1, LENGTH) for part in batch)
    )


def step_loss(model: Any, params: Any, batch: MicroBatches) -> StepLoss:
    return jax.jit(lambda p, b: loss_and_gradients(model, p, b, None))(params, batch)


def test_any_split_into_micro_batches_gives_the_same_loss_and_gradients(
    model: Any, params: Any
) -> None:
    batch = rows([16, 1, 3, 16, 0, 7, 2, 11])
    results = [step_loss(model, params, split(batch, a)) for a in (1, 2, 8)]
    assert {float(r.targets) for r in results} == {56.0}
    for result in results[1:]:
        np.testing.assert_allclose(result.loss, results[0].loss, rtol=1e-6)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
            result.gradients,
            results[0].gradients,
        )


def test_the_loss_is_the_mean_over_targets_not_over_rows(model: Any, params: Any) -> None:
    batch = rows([16, 1, 3, 16, 0, 7, 2, 11])
    logits = np.asarray(jax.jit(model.apply)({"params": params}, batch.tokens), np.float64)
    log_sum = np.log(np.exp(logits).sum(-1))
    picked = np.take_along_axis(logits, batch.targets[..., None], -1)[..., 0]
    expected = ((log_sum - picked) * batch.weights).sum() / batch.weights.sum()
    found = step_loss(model, params, split(batch, 4))
    np.testing.assert_allclose(found.loss, expected, rtol=1e-5)


def test_a_step_without_targets_has_loss_zero_and_no_gradient(model: Any, params: Any) -> None:
    result = step_loss(model, params, split(rows([0] * 8), 2))
    assert result.loss == 0
    assert all((g == 0).all() for g in jax.tree.leaves(result.gradients))


def test_micro_batches_of_one_step_drop_different_units(model: Any, params: Any) -> None:
    dropping = model.clone(dropout=0.5)
    same_rows = MicroBatches(
        *(None if p is None else np.repeat(p[:1], 2, 0) for p in rows([16] * 8))
    )

    def loss(key: jax.Array) -> Any:
        function = jax.jit(lambda p, b, k: loss_and_gradients(dropping, p, b, k).loss)
        first = function(
            params, MicroBatches(*(None if p is None else p[None, :1] for p in same_rows)), key
        )
        both = function(params, split(same_rows, 2), key)
        return float(first), float(both)

    first, both = loss(jax.random.key(0))
    assert first != both  # the second micro-batch holds the same row under another mask


def test_many_small_gradients_add_up_in_float32() -> None:
    """256 micro-batches of gradients of 1e-3, in bfloat16 compute, against float64."""

    class Line(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            w = self.param("w", nn.initializers.ones, (), jnp.float32)
            return x * w

        def batch_loss(self, tokens: jax.Array, *_: Any) -> tuple[jax.Array, jax.Array]:
            return self(tokens.astype(jnp.float32)).sum(), jnp.float32(1)

    values = np.random.default_rng(0).normal(1e-3, 1e-3, (256, 1, 1)).astype(np.float32)
    batch = MicroBatches(values, values, values)
    found = loss_and_gradients(Line(), {"w": jnp.ones(())}, batch, None)
    np.testing.assert_allclose(
        found.gradients["w"], values.astype(np.float64).sum() / 256, rtol=1e-5
    )
