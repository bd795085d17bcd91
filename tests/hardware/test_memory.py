"""Memory per device: the state by hand, activations by the published terms."""

from __future__ import annotations

import dataclasses

import pytest

from theseus.errors import UserError
from theseus.hardware.memory import (
    PARTS,
    ArrayShape,
    MemoryEstimate,
    StepSizes,
    activation_bytes,
    estimate,
    in_words,
    logits_bytes,
)
from theseus.hardware.sharding import MeshShape, ShardingPolicy

MATRIX = ArrayShape((12, 64, 256), ("layers", "embed", "mlp"))
EMBEDDING = ArrayShape((1024, 64), ("vocab", "embed"))
SIZES = StepSizes(
    rows=2, length=128, accumulation=1, n_layers=12, n_embd=64, heads=4, hidden=256, vocab_size=1024
)


def made(
    policy: ShardingPolicy | None = None, devices: int = 1, sizes: StepSizes = SIZES
) -> MemoryEstimate:
    policy = policy or ShardingPolicy()
    parameters = [MATRIX, EMBEDDING]
    mesh = MeshShape.of(policy, devices)
    return estimate(parameters, parameters * 2, sizes, policy, mesh)


COUNT = 12 * 64 * 256 + 1024 * 64


@pytest.mark.parametrize(
    ("policy", "parameters", "optimizer", "gradients"),
    [
        # 4N, 8N and 4N bytes (ZeRO, arXiv:1910.02054, with everything in float32), over 8 devices
        (ShardingPolicy(), 4 * COUNT, 8 * COUNT, 4 * COUNT),
        (ShardingPolicy(zero=True), 4 * COUNT, 8 * COUNT / 8, 4 * COUNT / 8),
        (ShardingPolicy(fsdp=True), 4 * COUNT / 8, 8 * COUNT / 8, 4 * COUNT / 8),
        (ShardingPolicy(tp=2), 4 * COUNT / 2, 8 * COUNT / 2, 4 * COUNT / 2),
        (ShardingPolicy(tp=2, zero=True), 4 * COUNT / 2, 8 * COUNT / 8, 4 * COUNT / 8),
        (ShardingPolicy(tp=4, fsdp=True), 4 * COUNT / 8, 8 * COUNT / 8, 4 * COUNT / 8),
    ],
)
def test_the_state_is_that_of_the_zero_paper(
    policy: ShardingPolicy, parameters: float, optimizer: float, gradients: float
) -> None:
    found = made(policy, 8)
    assert (found.parameters, found.optimizer, found.gradients) == (
        parameters,
        optimizer,
        gradients,
    )


def test_several_micro_batches_keep_the_sum_and_the_newest_gradients() -> None:
    once, twice = made(), made(sizes=dataclasses.replace(SIZES, accumulation=2))
    assert twice.gradients == 2 * once.gradients


def test_selective_recomputation_of_the_published_formula() -> None:
    """Korthikanti et al., table 2: s b h (10 + 24 / t) bytes a layer with 16-bit activations.

    Theirs has three dropout masks (2 of them whole: 1 byte each) and keeps the input of GELU, 8 s b
    h; so ours without dropout is theirs less 2, and less their keys' copy that we do not make.
    """
    sizes = dataclasses.replace(SIZES, itemsize=2, flash=True, hidden=4 * 64)
    t1 = activation_bytes(sizes, [], ShardingPolicy(), MeshShape()).kept / 12
    t4 = activation_bytes(sizes, [], ShardingPolicy(tp=4), MeshShape(1, 4)).kept / 12
    sbh = 128 * 2 * 64
    lse = 4 * 4 * 128 * 2  # flash attention's float32 per head and position
    assert t1 - lse == sbh * (8 + 8 + 16)
    assert t4 - lse / 4 == sbh * (8 + (8 + 16) / 4)


def test_block_rematerialisation_keeps_one_input_per_layer() -> None:
    sizes = dataclasses.replace(SIZES, remat="block")
    kept = activation_bytes(sizes, [], ShardingPolicy(), MeshShape()).kept
    assert kept == 12 * (2 * 128 * 64 * 4)


def test_attention_without_flash_keeps_its_weights() -> None:
    plain = activation_bytes(SIZES, [], ShardingPolicy(), MeshShape()).kept
    flash = dataclasses.replace(SIZES, flash=True)
    without = activation_bytes(flash, [], ShardingPolicy(), MeshShape()).kept
    scores, lse = 2 * 4 * 128 * 128, 2 * 4 * 128
    assert plain - without == 12 * (4 * scores - 4 * lse)


def test_logits_are_a_chunk_and_its_gradient_in_float32() -> None:
    sizes = dataclasses.replace(SIZES, logits_chunks=4)
    assert logits_bytes(sizes, [], ShardingPolicy(), MeshShape()) == 2 * 4 * (2 * 128 / 4) * 1024
    tensor = logits_bytes(sizes, [], ShardingPolicy(tp=2), MeshShape(1, 2))
    assert tensor == 2 * 4 * (2 * 128 / 4) * 512


def test_the_parts_add_up_and_are_shown() -> None:
    found = made()
    assert tuple(found.parts) == PARTS
    assert found.total == sum(found.parts.values())
    text = str(found)
    assert text.splitlines()[0] == "memory per device (1 data × 1 tensor)"
    assert f"total        {in_words(found.total):>9}" in text
    assert "tp 2, zero" in str(made(ShardingPolicy(tp=2, zero=True), 8))


def test_an_estimate_of_shapes_alone_cannot_be_verified() -> None:
    with pytest.raises(UserError, match="no step to compile"):
        made().verify()
