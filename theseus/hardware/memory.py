"""How much memory a training step needs on each device, by part, before anything is allocated.

The state is exact: shapes, divided as the sharding rules say. Activations follow from what the
backward pass of each layer reads (after Korthikanti et al., arXiv:2205.05198, section 4; what
differs here is written beside each term). Everything is arithmetic; JAX is not imported.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from theseus.errors import UserError
from theseus.hardware.sharding import (
    Axes,
    MeshShape,
    ShardingPolicy,
    optimizer_rules,
    parameter_rules,
    shard_shape,
)

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
FLOAT32 = 4

# A layer's gradient before it is put among those of the others, and copies of its weights.
LAYER_COPIES = 1.5


@dataclass(frozen=True)
class ArrayShape:
    """One array of the state: its shape, the names of its axes, and bytes per element."""

    shape: tuple[int, ...]
    axes: Axes
    itemsize: int = FLOAT32

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def device_bytes(self, rules: Mapping[str, str], mesh: MeshShape) -> int:
        """Return the bytes of one device's part."""
        return math.prod(shard_shape(self.shape, self.axes, rules, mesh)) * self.itemsize


@dataclass(frozen=True)
class StepSizes:
    """What the activations of a step depend on.

    Attributes
    ----------
    rows
        B: rows of a micro-batch on one device.
    length
        T.
    accumulation
        A: micro-batches of a step.
    n_layers, n_embd, heads, hidden, vocab_size
        L, D, H, F, V.
    itemsize
        c: bytes of an activation.
    flash
        Whether attention keeps no (T, T) array.
    remat
        What the backward pass computes again.
    dropout
        Whether dropout keeps its masks.
    logits_chunks
        How many chunks of T the logits are worked off in.
    """

    rows: int
    length: int
    accumulation: int
    n_layers: int
    n_embd: int
    heads: int
    hidden: int
    vocab_size: int
    itemsize: int = FLOAT32
    flash: bool = False
    remat: Literal["none", "dots", "block"] = "none"
    dropout: bool = False
    logits_chunks: int = 1


PARTS = ("parameters", "gradients", "optimizer", "activations", "logits", "data")


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on each device at the moment of a step that needs most; the parts add up to `total`.

    `verify()` asks the compiler.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    data: int
    mesh: MeshShape = field(default_factory=MeshShape)
    policy: ShardingPolicy = field(default_factory=ShardingPolicy)
    compile_step: Callable[[], CompiledMemory] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by part, in the order in which they are shown."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.parts.values())

    @property
    def state(self) -> int:
        """Bytes of what stays from step to step: parameters and optimizer state."""
        return self.parameters + self.optimizer

    def verify(self) -> MemoryComparison:
        """Compile the step, allocating nothing, and return what the compiler says beside this.

        Raises
        ------
        UserError
            When fewer devices are here than the estimate is for.
        """
        if self.compile_step is None:
            msg = "this estimate was made from shapes alone: there is no step to compile"
            raise UserError(msg)
        return MemoryComparison(self, self.compile_step())

    def __str__(self) -> str:
        spread = "" if self.policy == ShardingPolicy() else f", {self.policy}"
        head = f"memory per device ({self.mesh}{spread})"
        rows = [(name, in_words(count)) for name, count in self.parts.items()]
        rows.append(("total", in_words(self.total)))
        return "\n".join([head, *(f"  {name:<12} {text:>9}" for name, text in rows)])

    __repr__ = __str__


@dataclass(frozen=True)
class CompiledMemory:
    """What a compiled step needs on each device, as the compiler says; bytes.

    Attributes
    ----------
    state
        Of its arguments: parameters and optimizer state.
    total
        Arguments, results that do not take the place of an argument, and everything between.
    backend
        What it was compiled for.
    """

    state: int
    total: int
    backend: str


@dataclass(frozen=True)
class MemoryComparison:
    """An estimate beside what the compiler says of the same step."""

    estimate: MemoryEstimate
    compiled: CompiledMemory

    @property
    def state_error(self) -> float:
        """By what share the estimate of the state is too high (too low, where negative)."""
        return self.estimate.state / self.compiled.state - 1

    @property
    def total_error(self) -> float:
        """By what share the estimate of the whole is too high (too low, where negative)."""
        return self.estimate.total / self.compiled.total - 1

    def __str__(self) -> str:
        rows = [
            ("state", self.estimate.state, self.compiled.state, self.state_error),
            ("total", self.estimate.total, self.compiled.total, self.total_error),
        ]
        lines = [f"{'':8}{'estimate':>10}{'compiler':>10}   ({self.compiled.backend})"]
        for name, mine, theirs, error in rows:
            lines.append(f"{name:<8}{in_words(mine):>10}{in_words(theirs):>10}   {error:+.1%}")
        return "\n".join(lines)

    __repr__ = __str__


def estimate(
    parameters: Iterable[ArrayShape],
    optimizer: Iterable[ArrayShape],
    sizes: StepSizes,
    policy: ShardingPolicy,
    mesh: MeshShape,
    compile_step: Callable[[], CompiledMemory] | None = None,
) -> MemoryEstimate:
    """Return what one training step needs on each device.

    Parameters
    ----------
    parameters, optimizer
        Every array of the model and of the optimizer's state.
    sizes
        What the activations depend on.
    policy, mesh
        How arrays are spread.
    compile_step
        What `verify` calls.
    """
    parameters, optimizer = list(parameters), list(optimizer)
    spread, whole = optimizer_rules(policy), parameter_rules(policy)
    gradient = sum(array.device_bytes(spread, mesh) for array in parameters)
    logits = logits_bytes(sizes, parameters, policy, mesh)
    between = activation_bytes(sizes, parameters, policy, mesh)
    # The logits and the work on one layer are never alive together.
    activations = between.kept + max(0, between.working - logits)
    return MemoryEstimate(
        parameters=sum(array.device_bytes(whole, mesh) for array in parameters),
        # With several micro-batches the sum of the earlier ones, and the gradients of this one.
        gradients=gradient * (2 if sizes.accumulation > 1 else 1),
        optimizer=sum(array.device_bytes(spread, mesh) for array in optimizer),
        activations=round(activations),
        logits=round(logits),
        data=data_bytes(sizes),
        mesh=mesh,
        policy=policy,
        compile_step=compile_step,
    )


@dataclass(frozen=True)
class ActivationBytes:
    """Bytes that the forward pass keeps for the backward pass, and those of the work on a layer."""

    kept: float
    working: float


def activation_bytes(
    sizes: StepSizes, parameters: Iterable[ArrayShape], policy: ShardingPolicy, mesh: MeshShape
) -> ActivationBytes:
    """Return the bytes of activations on one device: kept for all layers, and at work in one.

    For each layer the backward pass reads, in units of B·T elements of c bytes:

    * both inputs of the norms and what they return: 4D, whole on every tensor-parallel device;
    * q, k, v and the output of attention: 4D / t;
    * the input of GELU and what it returns: 2F / t;
    * without flash attention its weights: H·T / t; with it one float32 per head and position;
    * with dropout two masks of one byte: 2D.

    `dots` keeps the input of the block and what its products return: 2D + (3D + F) / t. `block`
    keeps its input: D. Both make one layer's other arrays again when its turn comes.
    """
    t = mesh.tensor
    positions = sizes.rows * sizes.length
    width, hidden = sizes.n_embd, sizes.hidden
    c = sizes.itemsize
    per_head = sizes.heads / t * positions
    if sizes.flash:
        attention = attention_work = per_head * FLOAT32
    else:
        attention = per_head * sizes.length * c
        attention_work = 2 * per_head * sizes.length * FLOAT32  # scores, or gradients of weights
    masks = 2 * positions * width if sizes.dropout else 0
    layer = positions * c * (4 * width + (4 * width + 2 * hidden) / t) + attention + masks
    block = positions * c * width
    dots = positions * c * (2 * width + (3 * width + hidden) / t)
    kept_per_layer = {"none": layer, "dots": dots, "block": block}[sizes.remat]
    # Cotangents of the widest arrays, in float32 where the layer computes so.
    working = 2 * positions * hidden / t * FLOAT32 + attention_work
    if sizes.remat != "none":
        working += layer - (dots if sizes.remat == "dots" else 0)
    stacked = [array for array in parameters if "layers" in array.axes]
    # With fsdp a layer is gathered while it is worked on: what counts is tensor parallelism alone.
    gathered = MeshShape(1, t)
    layers = sum(array.device_bytes(parameter_rules(policy), gathered) for array in stacked)
    working += LAYER_COPIES * layers / max(sizes.n_layers, 1)
    kept = sizes.n_layers * kept_per_layer
    if sizes.itemsize != FLOAT32 and sizes.remat == "none":
        kept += layers * sizes.itemsize / FLOAT32  # the weights as they were computed with
    return ActivationBytes(kept, working)


def logits_bytes(
    sizes: StepSizes, parameters: Iterable[ArrayShape], policy: ShardingPolicy, mesh: MeshShape
) -> float:
    """Return the bytes of one chunk of logits and of its gradient on one device, in float32.

    Where the embedding is spread over the data axis it is gathered for this, and its gradient is
    whole until all chunks are done.
    """
    rows = sizes.rows * sizes.length / sizes.logits_chunks
    embedding = sum(
        array.device_bytes(parameter_rules(policy), MeshShape(1, mesh.tensor))
        for array in parameters
        if "vocab" in array.axes
    )
    spread = mesh.data > 1 and (policy.fsdp or policy.zero)
    copies = (2 if policy.fsdp else 1) if spread else 0
    return 2 * rows * sizes.vocab_size / mesh.tensor * FLOAT32 + copies * embedding


def data_bytes(sizes: StepSizes) -> int:
    """Return the bytes of the token ids, targets and weights of one step on one device."""
    return 3 * sizes.accumulation * sizes.rows * sizes.length * 4


def machine_memory() -> int:
    """Return the bytes of main memory that this process may use: the machine's or the container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [int(text) for path in CGROUP_LIMITS if (text := _read(path)).isdigit()]
    return min([total, *limits])


def in_words(count: float) -> str:
    """Return bytes as a person reads them, in powers of 1024: `31 MiB`, `2.4 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
