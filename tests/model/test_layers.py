"""Layers whose backward pass is written by hand: their derivatives are those of the formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theseus.model.layers.mlp import gelu
from theseus.model.layers.norm import layer_norm


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_gelu_and_its_derivative_are_those_of_jax(dtype: str, tolerance: float) -> None:
    x = jnp.linspace(-6, 6, 1001).astype(dtype)
    wide = x.astype(jnp.float32)
    expected, slope = jax.vmap(jax.value_and_grad(lambda v: jax.nn.gelu(v, approximate=True)))(wide)
    found, pullback = jax.vjp(gelu, x)
    (found_slope,) = pullback(jnp.ones_like(x))
    assert found.dtype == found_slope.dtype == x.dtype
    np.testing.assert_allclose(found.astype(jnp.float32), expected, atol=tolerance)
    np.testing.assert_allclose(found_slope.astype(jnp.float32), slope, atol=tolerance)


def test_gelu_is_finite_far_from_zero() -> None:
    x = jnp.array([-1e4, -50.0, 0.0, 50.0, 1e4])
    value, pullback = jax.vjp(gelu, x)
    np.testing.assert_allclose(value, [0, 0, 0, 50, 1e4], atol=1e-6)
    np.testing.assert_allclose(pullback(jnp.ones(5))[0], [0, 0, 0.5, 1, 1], atol=1e-6)


def test_layer_norm_and_its_derivatives_are_those_of_the_formula() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    x = 3 * jax.random.normal(keys[0], (4, 5, 16)) + 1
    scale, bias = 1 + jax.random.normal(keys[1], (16,)), jax.random.normal(keys[2], (16,))
    weights = jax.random.normal(keys[3], x.shape)

    def plain(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias

    def total(function: object) -> object:
        return lambda *given: (function(*given) * weights).sum()  # type: ignore[operator]

    mine = jax.value_and_grad(
        total(lambda *a: layer_norm(1e-5, jnp.dtype(jnp.float32), *a)), argnums=(0, 1, 2)
    )  # type: ignore[arg-type]
    theirs = jax.value_and_grad(total(plain), argnums=(0, 1, 2))  # type: ignore[arg-type]
    found, expected = mine(x, scale, bias), theirs(x, scale, bias)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), found, expected
    )


def test_layer_norm_computes_in_float32_whatever_it_is_given() -> None:
    x = (jax.random.normal(jax.random.key(0), (8, 256)) + 100).astype(jnp.bfloat16)
    found = layer_norm(1e-5, x.dtype, x, jnp.ones(256), jnp.zeros(256))
    wide = np.asarray(x, np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, atol=0.02)
