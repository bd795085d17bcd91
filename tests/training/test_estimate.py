"""A trainer's memory before it runs: no token is read, nothing is allocated, the compiler agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import pytest

from theseus.config import load
from theseus.errors import UserError
from theseus.quick import quick


def recipe(root: Path, **changes: Any) -> Any:
    with quick(root) as q:
        q.build("gpt/train/pretrain", "memory")
        load(
            q.config,
            {
                "architecture": {
                    "n_embd": 64,
                    "n_layers": 3,
                    "n_head": 4,
                    "vocab_size": 512,
                    "block_size": 64,
                },
                "training": {"batch_size": 8, "per_device_batch_size": 2},
            },
        )
        load(q.config, {key.replace("__", "."): value for key, value in changes.items()})
        return q


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training__per_device_batch_size": 8},
        {"training__remat": "block", "architecture__n_layers": 8},
        {"architecture__vocab_size": 8192, "optimization__ema": 0.9},
    ],
)
def test_the_compiler_agrees(tmp_path: Path, changes: dict[str, Any]) -> None:
    before = len(jax.live_arrays())
    found = recipe(tmp_path, **changes).create().estimate().verify()
    assert len(jax.live_arrays()) == before
    assert abs(found.state_error) < 0.10, found
    assert abs(found.total_error) < 0.25, found


def test_it_is_instant_on_a_machine_without_the_devices(tmp_path: Path) -> None:
    q = recipe(tmp_path).shard(tp=2, fsdp=True)
    q.config.training.batch_size = 64
    q.config.training.per_device_batch_size = 2
    found = q.create().estimate(64, backend="gpu")
    assert str(found.mesh) == "32 data × 2 tensor"
    one = recipe(tmp_path).create().estimate(1)
    assert found.parameters == pytest.approx(
        one.parameters / 64, rel=0.3
    )  # biases and norms are not spread
    with pytest.raises(UserError, match=r"for 64 devices, and 1 are here.*device_count=64"):
        found.verify()


def test_a_state_beyond_the_memory_is_refused_with_the_keys_to_lower(tmp_path: Path) -> None:
    q = recipe(tmp_path, architecture__n_embd=2**14, architecture__n_layers=96)
    found = q.create().estimate()
    assert found.parameters > 2**38
