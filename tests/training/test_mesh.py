"""However a model is spread over devices and processes, its losses are those of one device."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from theseus.config import ConfigError, load
from theseus.hardware.sharding import (
    RULES,
    SPREAD_RULES,
    MeshShape,
    ShardingError,
    ShardingPolicy,
    partition,
    shard_shape,
)
from theseus.quick import quick


def start(devices: int, *arguments: str) -> subprocess.Popen[str]:
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.mesh", *arguments],
        env={**os.environ, "XLA_FLAGS": flags, "THESEUS_PROGRESS": "none"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> Any:
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def root(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mesh")
    (folder / "data").symlink_to(data_root / "data")
    return folder


@pytest.mark.slow
def test_every_policy_gives_the_losses_of_one_device_and_the_bytes_of_the_estimate(
    root: Path,
) -> None:
    (_, alone, whole), *found = answer(start(8, "combinations", str(root)))
    assert len(alone) == 20
    assert alone[-1] < alone[0] - 1
    assert len(found) == 16
    for (tp, fsdp, zero), losses, held in found:
        assert losses == pytest.approx(alone, rel=2e-6), (tp, fsdp, zero)
        assert held == expected_bytes(tp, fsdp, zero), (tp, fsdp, zero)
    assert whole == expected_bytes(1, False, False)


def expected_bytes(tp: int, fsdp: bool, zero: bool) -> int:
    """Count by hand: (elements, split by tp, split by the data axis) of each array, in float32."""
    embd, layers, heads, hidden, vocab, block = 32, 2, 8, 128, 264, 32
    del heads  # the elements of q, k and v do not depend on it
    arrays = [
        (vocab * embd, True, True),
        (block * embd, False, True),  # positions
        (2 * embd, False, True),  # the last norm
        (layers * embd * 3 * embd, True, True),  # q, k and v
        (layers * 3 * embd, True, False),
        (layers * embd * embd, True, True),  # out
        (layers * embd, False, True),
        (layers * embd * hidden, True, True),  # up
        (layers * hidden, True, False),
        (layers * hidden * embd, True, True),  # down
        (layers * embd, False, True),
        (layers * 4 * embd, False, True),  # two norms
    ]
    data = 8 // tp

    def held(spread: bool) -> int:
        return sum(
            count // (tp if by_tp else 1) // (data if by_data and spread else 1)
            for count, by_tp, by_data in arrays
        )

    counters = 4 + 2 * 4  # the step, and the optimizer's and the schedule's own
    return 4 * held(fsdp) + 2 * 4 * held(fsdp or zero) + counters


@pytest.mark.slow
def test_a_run_goes_on_over_other_meshes_and_other_hosts(root: Path) -> None:
    straight = answer(start(8, "straight", str(root)))
    elastic = answer(start(8, "resume", str(root)))
    assert [step for step, _ in elastic] == list(range(1, 21))
    assert [loss for _, loss in elastic] == pytest.approx([loss for _, loss in straight], rel=1e-5)


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one_and_stop_together(root: Path) -> None:
    """Only the second is asked to stop, at step 5: both save, and both go on afterwards."""
    one, _ = answer(start(1, "alone", str(root)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    both = [start(4, "process", str(root), port, number) for number in ("0", "1")]
    two, _ = [answer(process) for process in both]
    assert [step for step, _ in two] == list(range(1, 21))
    assert [loss for _, loss in two] == pytest.approx(one, rel=1e-5)
    (folder,) = root.glob("runs/*/*/two-*")
    kinds = [json.loads(line)["kind"] for line in (folder / "events.jsonl").open()]
    assert "resumed" in kinds


# What cannot be divided is refused before anything is allocated.


@pytest.mark.parametrize(
    ("policy", "changes", "says"),
    [
        ({"tp": 3}, {}, r"tp=3 does not divide 8 devices; possible: 1, 2, 4, 8"),
        (
            {"tp": 8},
            {"architecture.n_head": 4},
            r"architecture.n_head = 4 cannot be divided by tp=8; tp can be 1, 2, 4, or set it to 8",
        ),
        (
            {"tp": 4},
            {"architecture.vocab_size": 266},
            r"architecture.vocab_size = 266 .* tp=4; tp can be 1, 2, or set it to 264 or 268",
        ),
        (
            {"tp": 4},
            {"architecture.intermediate_size": 130},
            r"architecture.intermediate_size = 130 .* tp=4; tp can be 1, 2, or set it to 128 or 132",
        ),
        (
            {"fsdp": True},
            {"architecture.n_embd": 36, "architecture.n_head": 4},
            r"architecture.n_embd = 36 .* fsdp over 8 devices; switch fsdp off, or set it to 32 or 40",
        ),
        (
            {"zero": True},
            {"architecture.n_embd": 36, "architecture.n_head": 4},
            r"architecture.n_embd = 36 .* zero over 8 devices",
        ),
        ({"tp": 2}, {"training.batch_size": 6}, r"batch_size = 6 .* 4 devices; 4 or 8 can"),
    ],
)
def test_what_cannot_divide_is_refused_with_the_values_that_can(
    root: Path,
    policy: dict[str, Any],
    changes: dict[str, Any],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.training.mesh import VALUES
    from theseus.training.placement import Placement

    shape = MeshShape.of

    class Eight(Placement):
        @property
        def shape(self) -> MeshShape:
            return shape(self.policy, 8)

    def over(policy: ShardingPolicy, devices: Any = None) -> Placement:
        made = Eight(Placement.over(ShardingPolicy()).mesh, policy)
        assert made.shape
        return made

    with quick(root) as q:
        q.build("gpt/train/pretrain", "refused").shard(**policy)
        load(q.config, VALUES)
        load(q.config, changes)
        made = q.create()
        monkeypatch.setattr(
            type(made), "placement", property(lambda self: over(self.sharding)), raising=False
        )
        with pytest.raises((ConfigError, ShardingError), match=says):
            made()


def test_the_table_says_which_axis_of_the_mesh_an_array_is_spread_over() -> None:
    assert partition(("embed", None, "heads", "head_size")) == (None, None, "tensor", None)
    assert partition(("embed", "mlp"), SPREAD_RULES) == ("data", "tensor")
    assert partition(("batch", None, "vocab")) == ("data", None, "tensor")
    assert partition(("embed", "embed"), SPREAD_RULES) == ("data", None)  # an axis is given once
    assert partition(("an axis of the user's own",)) == (None,)


def test_a_shard_has_its_share_of_each_axis() -> None:
    mesh = MeshShape.of(ShardingPolicy(tp=2), 8)
    assert mesh == MeshShape(data=4, tensor=2)
    assert shard_shape((12, 64), ("embed", "mlp"), RULES, mesh) == (12, 32)
    assert shard_shape((12, 64), ("embed", "mlp"), SPREAD_RULES, mesh) == (3, 32)


def test_shard_on_a_recipe_goes_into_its_spec_and_its_job(root: Path) -> None:
    with quick(root) as q:
        q.build("gpt/train/pretrain", "a").shard(tp=2, fsdp=True)
        q.shard(zero=True)
        policy = ShardingPolicy(2, fsdp=True, zero=True)
        assert q.sharding == q.create().sharding == q.spec().resources.sharding == policy
        assert q.spec().quick(root).sharding == policy
        assert "tp 2, fsdp, zero" in repr(q)
