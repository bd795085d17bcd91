"""Whether a training step fits the memory of a chip, for any choice of hardware and sharding.

A `Workload` is what has to be known of a model, once; everything after that is arithmetic, so that
a form can try hundreds of choices while somebody types. JAX is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from theseus.hardware.chips import Chip, Kind
from theseus.hardware.memory import (
    ArrayShape,
    MemoryEstimate,
    StepSizes,
    estimate,
    in_words,
)
from theseus.hardware.sharding import MeshShape, ShardingPolicy

Remat = Literal["none", "dots", "block"]
REMATS: tuple[Remat, ...] = ("none", "dots", "block")  # the least computing first

# The share of a chip's memory that a run may fill. The rest is the driver's, the libraries' and
# the communication buffers'; the worker sets JAX's own limit to it.
USABLE = 0.9
# An estimate may be a tenth too low (docs/how-to/memory.md has the comparison with the compiler).
SURE = 0.9


class ChunkCount(Protocol):
    """How many chunks the logits are worked off in, for sizes on one device."""

    def __call__(self, *, rows: int, length: int, vocab_size: int, backend: str) -> int:
        """Return the number of chunks."""


@dataclass(frozen=True)
class Workload:
    """What a training step is made of, whatever it runs on.

    Attributes
    ----------
    parameters, optimizer
        Every array of the model and of the optimizer's state, whole.
    sizes
        Of the model; rows, accumulation, itemsize, flash, remat and chunks are of no account.
    batch_size
        Rows of a step, over all devices.
    most_rows
        Rows of a micro-batch on one device where none are asked for, at most.
    bfloat16
        Kind of chip → whether activations are computed in bfloat16 there.
    separate_documents
        Whether attention keeps documents apart, which no flash kernel does.
    chunks
        How many chunks the logits are worked off in.
    """

    parameters: tuple[ArrayShape, ...]
    optimizer: tuple[ArrayShape, ...]
    sizes: StepSizes
    batch_size: int
    most_rows: int
    bfloat16: Mapping[Kind, bool]
    separate_documents: bool
    chunks: ChunkCount

    @property
    def parameter_count(self) -> int:
        """How many parameters there are."""
        return sum(array.size for array in self.parameters)


@dataclass(frozen=True)
class Setting:
    """What a workload runs on, and how it is spread there.

    Attributes
    ----------
    devices, nodes
        How many chips in all, and over how many machines; a machine without chips is one device.
    chip
        None: a GPU of any kind.
    rows
        Rows of a micro-batch on one device; None: the most that divides.
    remat
        What the backward pass computes again.
    """

    devices: int = 1
    nodes: int = 1
    policy: ShardingPolicy = field(default_factory=ShardingPolicy)
    chip: Chip | None = None
    rows: int | None = None
    remat: Remat = "none"

    @property
    def kind(self) -> Kind:
        """GPU, TPU or CPU."""
        return self.chip.kind if self.chip else "gpu"

    @property
    def mesh(self) -> MeshShape:
        """The devices, along each axis.

        Raises
        ------
        ShardingError
            When `tp` does not divide their number.
        """
        return MeshShape.of(self.policy, self.devices)


def micro_batch(work: Workload, setting: Setting) -> int:
    """Return the rows of a micro-batch on one device: those asked for, or the most that divides."""
    if setting.rows is not None:
        return setting.rows
    share = work.batch_size // setting.mesh.data
    return max(rows for rows in range(1, work.most_rows + 1) if share % rows == 0)


def step_sizes(work: Workload, setting: Setting) -> StepSizes:
    """Return what the activations of a step depend on, for a setting that can be trained with."""
    rows, mesh, sizes, kind = micro_batch(work, setting), setting.mesh, work.sizes, setting.kind
    # A GPU without bfloat16 units computes it in float32, and so does a CPU.
    short = work.bfloat16[kind] and kind != "cpu" and (not setting.chip or setting.chip.bf16_flops)
    return StepSizes(
        rows=rows,
        length=sizes.length,
        accumulation=max(work.batch_size // (rows * mesh.data), 1),
        n_layers=sizes.n_layers,
        n_embd=sizes.n_embd,
        heads=sizes.heads,
        hidden=sizes.hidden,
        vocab_size=sizes.vocab_size,
        itemsize=2 if short else 4,
        flash=bool(short) and kind == "gpu" and not work.separate_documents,
        remat=setting.remat,
        dropout=sizes.dropout,
        logits_chunks=work.chunks(
            rows=rows,
            length=sizes.length,
            vocab_size=sizes.vocab_size // mesh.tensor,
            backend=kind,
        ),
    )


def memory(work: Workload, setting: Setting) -> MemoryEstimate:
    """Return what each device needs, by part."""
    return estimate(
        work.parameters, work.optimizer, step_sizes(work, setting), setting.policy, setting.mesh
    )


Word = Literal["fits", "tight", "does not fit", "unknown"]


@dataclass(frozen=True)
class Fit:
    """An estimate beside the memory of a device.

    Attributes
    ----------
    memory
        Bytes of the device; None when it is not known.
    """

    estimate: MemoryEstimate
    memory: int | None
    chip: str = ""

    @property
    def usable(self) -> int | None:
        """Bytes that a run may fill."""
        return None if self.memory is None else int(self.memory * USABLE)

    @property
    def free(self) -> int | None:
        """Bytes that are left of those; negative when too much is asked of the device."""
        return None if self.usable is None else self.usable - self.estimate.total

    @property
    def word(self) -> Word:
        """`tight` is within the memory, but by less than the estimate may be wrong."""
        if self.usable is None:
            return "unknown"
        if self.estimate.total <= self.usable * SURE:
            return "fits"
        return "tight" if self.estimate.total <= self.usable else "does not fit"

    def __str__(self) -> str:
        total = in_words(self.estimate.total)
        if self.memory is None or self.free is None:
            return f"{total} on each {'machine' if self.chip == 'cpu' else 'device'}"
        share = f"{total} of {in_words(self.memory)}{f' on {self.chip}' if self.chip else ''}"
        if self.word == "does not fit":
            return f"{share}: does not fit, {in_words(-self.free)} too much"
        return f"{share}: {self.word}, {in_words(self.free)} to spare"


def fit(work: Workload, setting: Setting, capacity: int | None = None) -> Fit:
    """Return the estimate for a setting beside the memory of its chip.

    Parameters
    ----------
    capacity
        Bytes of a device whose chip has no memory of its own (a CPU).
    """
    chip = setting.chip
    known = chip.memory_bytes if chip and chip.memory_bytes else capacity
    return Fit(memory(work, setting), known, chip.name if chip else "")
