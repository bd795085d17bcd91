"""Checkpoints: complete or invisible, strict when read."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theseus.errors import UserError
from theseus.training import checkpoint
from theseus.training.checkpoint import CheckpointError, Checkpoints


def state(value: float = 1.0) -> dict[str, jax.Array]:
    return {"w": jnp.full((3, 2), value), "step": jnp.int32(7)}


def abstract(tree: object) -> object:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def test_what_is_saved_is_restored_bit_for_bit(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    values = {"w": jax.random.normal(jax.random.key(0), (100,)), "step": jnp.int32(3)}
    checkpoints.save(3, values, loss=1.5)
    checkpoints.wait()
    found = Checkpoints(tmp_path).restore(3, abstract(values))
    np.testing.assert_array_equal(found["w"], values["w"])
    assert checkpoints.manifest(3)["loss"] == 1.5


def test_an_incomplete_checkpoint_is_never_listed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state())
    checkpoints.wait()
    (tmp_path / "2" / "state").mkdir(parents=True)  # no manifest
    (tmp_path / ".partial-3" / "state").mkdir(parents=True)
    assert Checkpoints(tmp_path).steps() == [1]
    checkpoints.save(3, state())  # what a killed save left behind is no obstacle
    checkpoints.wait()
    assert Checkpoints(tmp_path).steps() == [1, 3]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    for step in (1, 2, 3, 10):
        checkpoints.save(step, state())
    checkpoints.wait()
    assert checkpoints.steps() == [3, 10]


def test_a_checkpoint_of_another_model_is_refused_leaf_by_leaf(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state())
    checkpoints.wait()
    other = {"w": jnp.zeros((3, 4)), "new": jnp.zeros(2)}
    with pytest.raises(CheckpointError) as caught:
        checkpoints.restore(1, abstract(other))
    text = str(caught.value)
    assert "w: float32[3,2] in the checkpoint, float32[3,4] here" in text
    assert "new: not in the checkpoint" in text
    assert "step: only in the checkpoint" in text


def test_a_save_that_fails_says_so_and_keeps_the_earlier_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state())
    checkpoints.wait()
    (tmp_path / "2").write_text("in the way")
    checkpoints.save(2, state())
    with pytest.raises(CheckpointError, match=r"step 2 .* the newest complete one is of step 1"):
        checkpoints.wait()
    assert checkpoints.steps() == [1]
    checkpoints.save(3, state())
    checkpoints.wait()
    assert checkpoints.steps() == [1, 3]


def test_training_without_a_way_to_save_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real = checkpoint.importlib.util.find_spec
    monkeypatch.setattr(
        checkpoint.importlib.util,
        "find_spec",
        lambda name: None if name == "orbax" else real(name),
    )
    with pytest.raises(UserError, match=r"orbax-checkpoint.*theseus-jupyter\[run\]"):
        checkpoint.check_installed()
