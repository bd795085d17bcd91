"""Which parameters an optimizer decays and orthogonalises, and what its steps are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theseus.config import build, configuration, configure, describe
from theseus.model.models import GPT
from theseus.training.loss import MicroBatches, loss_and_gradients
from theseus.training.optimizers import AdamW, ByName, Muon, hidden_matrices, matrices
from theseus.training.pretrain import PretrainGPT
from theseus.training.state import (
    Training,
    boxed_parameters,
    initial_state,
    make_optimizer,
    train_step,
)

Updates = Callable[..., dict[str, Any]]

SHAPE = {"n_embd": 32, "n_layers": 3, "n_head": 4, "block_size": 16, "vocab_size": 60}
RATE = 0.01
HIDDEN = {
    "blocks/attention/qkv": (3, 32, 3, 4, 8),
    "blocks/attention/out": (3, 4, 8, 32),
    "blocks/mlp/up": (3, 32, 128),
    "blocks/mlp/down": (3, 128, 32),
}
EMBEDDINGS = {"token_embedding", "position_embedding"}


@pytest.fixture(scope="module")
def model() -> Any:
    with configuration(build(GPT, values={"architecture": SHAPE})):
        return configure(GPT)


@pytest.fixture(scope="module")
def boxed(model: Any) -> Any:
    return jax.eval_shape(lambda: boxed_parameters(model, 0, 16))


@pytest.fixture(scope="module")
def params(boxed: Any) -> Any:
    draw = np.random.default_rng(0)
    return jax.tree.map(
        lambda p: jnp.asarray(draw.normal(0, 1, p.shape), jnp.float32), nn.meta.unbox(boxed)
    )


@pytest.fixture(scope="module")
def updates_of(boxed: Any, params: Any) -> Updates:
    """Return path → update of the last of some steps, each on other gradients."""

    @cache
    def last(optimizer: Any, steps: int = 1) -> dict[str, Any]:
        transformation = make_optimizer(optimizer, lambda _: jnp.float32(RATE), boxed)
        state, update = transformation.init(params), jax.jit(transformation.update)
        for seed in range(steps):
            updates, state = update(gradients_like(params, seed), state, params)
        return by_path(updates)

    return last


def by_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    return {jax.tree_util.keystr(p, simple=True, separator="/"): leaf for p, leaf in leaves}


def gradients_like(params: Any, seed: int) -> Any:
    draw = np.random.default_rng(seed)
    return jax.tree.map(lambda p: jnp.asarray(draw.normal(0, 1, p.shape), jnp.float32), params)


def newton_schulz(matrix: Any) -> Any:
    """Return Jordan's quintic iteration in float64, written from his post."""
    x = np.asarray(matrix, np.float64)
    x = x / np.linalg.norm(x)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def split(path: str, array: Any) -> dict[tuple[int, ...], Any]:
    """Return the matrices (inputs, outputs) that a parameter is a stack of."""
    array = np.asarray(array)
    stack = {
        "qkv": lambda a: a.transpose(0, 2, 1, 3, 4).reshape(3, 3, 32, 32),
        "out": lambda a: a.reshape(3, 32, 32),
    }.get(path.rpartition("/")[2], lambda a: a)(array)
    return {index: stack[index] for index in np.ndindex(stack.shape[:-2])}


# Roles


@pytest.mark.parametrize("optimizer", [AdamW(weight_decay=0.5), Muon(weight_decay=0.5)])
def test_matrices_decay_and_nothing_else(optimizer: Any, boxed: Any, params: Any) -> None:
    transformation = make_optimizer(optimizer, lambda _: jnp.float32(0.1), boxed)
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = jax.jit(transformation.update)(zeros, transformation.init(params), params)
    for path, update in by_path(updates).items():
        decays = path in {*HIDDEN, *EMBEDDINGS}
        expected = -0.05 * by_path(params)[path] if decays else jnp.zeros_like(update)
        np.testing.assert_allclose(update, expected, rtol=1e-5, err_msg=path)


def test_only_matrices_between_features_are_orthogonalised(boxed: Any) -> None:
    axes = by_path(
        hidden_matrices(boxed),
        is_leaf=lambda leaf: isinstance(leaf, optax.contrib.MuonDimensionNumbers),
    )
    assert axes == {
        "blocks/attention/qkv": ((1,), (3, 4)),
        "blocks/attention/out": ((1, 2), (3,)),
        "blocks/mlp/up": ((1,), (2,)),
        "blocks/mlp/down": ((1,), (2,)),
    }
    assert {path: by_path(nn.meta.unbox(boxed))[path].shape for path in axes} == HIDDEN


def test_a_parameter_without_names_is_left_to_adamw() -> None:
    plain = {"own": jax.ShapeDtypeStruct((8, 8), jnp.float32)}
    assert by_path(hidden_matrices(plain)) == {}
    assert by_path(matrices(plain)) == {"own": True}


# Muon's steps


@pytest.mark.parametrize("path", HIDDEN)
def test_the_update_of_each_matrix_is_newton_schulz_of_its_momentum(
    path: str, params: Any, updates_of: Updates
) -> None:
    found = split(path, updates_of(Muon(grad_clip=None), steps=3)[path])
    gradients = [split(path, by_path(gradients_like(params, seed))[path]) for seed in range(3)]
    for index, update in found.items():
        momentum = np.zeros(update.shape)
        for count, gradient in enumerate(gradients, 1):
            momentum = 0.95 * momentum + 0.05 * gradient[index]
            # Nesterov's look ahead, without the bias of a momentum that began at 0.
            ahead = 0.95 * momentum / (1 - 0.95 ** (count + 1))
            ahead = ahead + 0.05 * gradient[index] / (1 - 0.95**count)
        scale = 0.2 * max(update.shape) ** 0.5
        weights = split(path, by_path(params)[path])[index]
        expected = -RATE * (scale * newton_schulz(ahead) + 0.1 * weights)
        np.testing.assert_allclose(update, expected, atol=1e-5 * RATE * scale, rtol=1e-4)


def test_q_k_and_v_are_orthogonalised_as_if_stored_alone(params: Any, updates_of: Updates) -> None:
    path = "blocks/attention/qkv"
    found = updates_of(Muon(weight_decay=0.0, grad_clip=None))[path]
    gradient = by_path(gradients_like(params, 0))[path]
    # The same three matrices, each a parameter of its own.
    alone = {
        f"{layer} {part}": nn.LogicallyPartitioned(
            gradient[layer, :, part], ("embed", "heads", "head_size")
        )
        for layer in range(3)
        for part in range(3)
    }
    plain = nn.meta.unbox(alone)
    transformation = Muon(weight_decay=0.0, grad_clip=None).build(lambda _: RATE, alone)
    updates, _ = jax.jit(transformation.update)(plain, transformation.init(plain), plain)
    for layer in range(3):
        for part in range(3):
            np.testing.assert_allclose(
                found[layer, :, part], updates[f"{layer} {part}"], atol=1e-7, rtol=1e-5
            )
    # As one matrix of (D, 3·H·K) they would be turned into each other.
    fused = newton_schulz(np.asarray(gradient[0]).reshape(32, 96)).reshape(32, 3, 4, 8)
    fused = fused / np.linalg.norm(fused) * np.linalg.norm(found[0])
    assert np.linalg.norm(fused + found[0]) > 0.1 * np.linalg.norm(found[0])


@pytest.mark.parametrize("path", HIDDEN)
def test_layers_do_not_touch_each_other(path: str, boxed: Any, params: Any) -> None:
    transformation = Muon(grad_clip=None).build(lambda _: RATE, boxed)
    update = jax.jit(transformation.update)
    gradients = gradients_like(params, 0)
    changed = jax.tree_util.tree_map_with_path(
        lambda p, g: (
            g.at[1].set(g[1][::-1])
            if jax.tree_util.keystr(p, simple=True, separator="/") == path
            else g
        ),
        gradients,
    )
    state = transformation.init(params)
    before = by_path(update(gradients, state, params)[0])
    after = by_path(update(changed, state, params)[0])
    for name, value in before.items():
        if name == path:
            assert (value[0] == after[name][0]).all()
            assert (value[2] == after[name][2]).all()
            assert (value[1] != after[name][1]).any()
        else:
            assert (value == after[name]).all()


@pytest.mark.parametrize("path", HIDDEN)
def test_singular_values_come_near_one_and_updates_have_adamws_size(
    path: str, updates_of: Updates
) -> None:
    optimizer = Muon(weight_decay=0.0)
    for matrix in split(path, updates_of(optimizer)[path]).values():
        scale = 0.2 * max(matrix.shape) ** 0.5 * RATE
        values = np.linalg.svd(matrix / scale, compute_uv=False)
        # Jordan's coefficients end between 0.68 and 1.21; a random matrix has a few values near 0.
        assert values.max() < 1.21
        assert np.median(values) == pytest.approx(0.9, abs=0.25)
        assert np.sqrt((matrix**2).mean()) == pytest.approx(0.2 * RATE, rel=0.25)


def test_the_size_of_an_update_is_a_setting(updates_of: Updates) -> None:
    path = "blocks/mlp/up"
    one = updates_of(Muon(weight_decay=0.0))[path]
    two = updates_of(Muon(weight_decay=0.0, rms=0.4))[path]
    np.testing.assert_allclose(two, 2 * one, rtol=1e-6)


def test_everything_else_is_adamw(updates_of: Updates) -> None:
    muon = updates_of(Muon(), steps=4)
    adamw = updates_of(AdamW(), steps=4)
    for path, update in muon.items():
        assert (path in HIDDEN) == bool((update != adamw[path]).any()), path


def test_momentum_is_float32_also_of_bfloat16_gradients(boxed: Any, params: Any) -> None:
    low = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
    transformation = Muon().build(lambda _: jnp.float32(RATE), boxed)
    first = jax.eval_shape(transformation.init, low)
    _, state = jax.eval_shape(transformation.update, low, first, low)
    momenta = {path: leaf for path, leaf in by_path(state).items() if path.endswith(tuple(HIDDEN))}
    assert len(momenta) == len(HIDDEN)
    assert {leaf.dtype for leaf in momenta.values()} == {jnp.dtype("float32")}


def test_all_zero_gradients_give_finite_updates(boxed: Any, params: Any) -> None:
    transformation = Muon().build(lambda _: jnp.float32(RATE), boxed)
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = jax.jit(transformation.update)(zeros, transformation.init(params), params)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(updates))


# Precision


def with_rate(rate: float, model: Any, optimizer: Any, boxed: Any) -> Training:
    def constant(step: Any) -> Any:
        return jnp.float32(rate)

    return Training(
        model, make_optimizer(optimizer, constant, boxed), constant, seed=0, dropout=False
    )


def test_decay_alone_moves_float32_weights_of_a_bfloat16_model() -> None:
    """lr · decay · p is 6e-5 of p: in bfloat16 it would be rounded away."""
    values = {"architecture": {**SHAPE, "dtype": {"activation": "bfloat16"}}}
    with configuration(build(GPT, values=values)):
        model = configure(GPT)
    boxed = jax.eval_shape(lambda: boxed_parameters(model, 0, 16))
    training = with_rate(6e-4, model, AdamW(), boxed)
    state = jax.jit(partial(initial_state, training, 16))()
    tokens = np.zeros((2, 4, 16), np.int32)
    without_targets = MicroBatches(tokens, tokens, np.zeros(tokens.shape, np.float32))
    after, _ = jax.jit(partial(train_step, training))(state, without_targets)
    before = by_path(state.params)
    for path, leaf in by_path(after.params).items():
        assert leaf.dtype == jnp.float32
        decays = path in {*HIDDEN, *EMBEDDINGS}
        expected = np.asarray(before[path], np.float64) * (1 - 6e-5 * decays)
        np.testing.assert_allclose(leaf, expected, rtol=1e-6, err_msg=path)
        if decays:
            assert (leaf != before[path]).mean() > 0.99


def test_a_bfloat16_model_accumulates_its_gradients_in_float32() -> None:
    """64 micro-batches of one row each, against the sum of their gradients in float64."""
    values = {"architecture": {**SHAPE, "dtype": {"activation": "bfloat16"}}}
    with configuration(build(GPT, values=values)):
        model = configure(GPT)
    params = nn.meta.unbox(jax.jit(lambda: boxed_parameters(model, 0, 16))())
    draw = np.random.default_rng(0)
    tokens, targets = draw.integers(0, 60, (2, 64, 1, 16)).astype(np.int32)
    batches = MicroBatches(tokens, targets, np.ones(tokens.shape, np.float32))
    gradient = jax.jit(lambda p, b: loss_and_gradients(model, p, b, None).gradients)
    found = by_path(gradient(params, batches))
    parts = [
        by_path(gradient(params, jax.tree.map(lambda a, i=i: a[i : i + 1], batches)))
        for i in range(64)
    ]
    for path, total in found.items():
        assert total.dtype == jnp.float32
        exact = np.mean([np.asarray(part[path], np.float64) for part in parts], axis=0)
        assert np.linalg.norm(total - exact) < 1e-5 * np.linalg.norm(exact), path


# In training


@pytest.mark.parametrize("optimizer", [AdamW(), Muon()])
def test_twenty_steps_lower_the_loss(optimizer: Any, model: Any, boxed: Any) -> None:
    training = with_rate(RATE, model, optimizer, boxed)
    state = jax.jit(partial(initial_state, training, 16))()
    step = jax.jit(partial(train_step, training))
    draw = np.random.default_rng(0)
    losses = []
    for _ in range(20):
        first = draw.integers(0, 60, (2, 4, 1))
        tokens = ((first + 7 * np.arange(16)) % 60).astype(np.int32)
        batch = MicroBatches(tokens, ((tokens + 7) % 60), np.ones(tokens.shape, np.float32))
        state, metrics = step(state, batch)
        losses.append(float(metrics.loss))
    assert losses[0] == pytest.approx(np.log(60), abs=0.1)
    assert losses[-1] < 0.7 * losses[0]


def test_the_configuration_chooses_by_name(updates_of: Updates) -> None:
    assert ByName in PretrainGPT.configs()
    (key,) = [r for r in describe(PretrainGPT) if r.key == "optimization.optimizer"]
    assert key.choices == ("adamw", "muon")
    for name, expected in (("adamw", AdamW()), ("muon", Muon())):
        with configuration(build(ByName, values={"optimization": {"optimizer": name}})):
            chosen = configure(ByName)
        found = updates_of(chosen)
        for path, update in updates_of(expected).items():
            assert (found[path] == update).all()


def test_a_run_trains_with_muon(trainer: Callable[..., Any]) -> None:
    run = trainer(optimization__optimizer="muon", training__tokens=20 * 8 * 32)()
    losses = [m["train/loss"] for m in run.metrics() if "train/loss" in m]
    assert losses[-1] < losses[0] - 0.5
