"""What a request comes to on each node, and how it is said in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from theseus.hardware.resources import Resources

_MIB = 2**20


@dataclass(frozen=True)
class Need:
    """A request, per node.

    Attributes
    ----------
    chips
        Acceptable chips, the most wanted first; empty accepts any (or none are needed).
    gpus
        Chips per node; 0 for a run on processors.
    memory
        Bytes of main memory.
    """

    chips: tuple[str, ...]
    gpus: int
    nodes: int
    cpus: int | None
    memory: int | None

    @property
    def text(self) -> str:
        """The request as a person would say it: `2 × 4 × h100`, `8 CPUs`."""
        if self.gpus:
            times = f"{self.nodes} × {self.gpus}" if self.nodes > 1 else str(self.gpus)
            return f"{times} × {' or '.join(self.chips) or 'GPU'}"
        cpus = f"{self.cpus} CPUs" if self.cpus and self.cpus > 1 else "CPU"
        return f"{self.nodes} × {cpus}" if self.nodes > 1 else cpus

    @property
    def memory_mib(self) -> int | None:
        """Main memory in MiB, rounded up."""
        return None if self.memory is None else -(-self.memory // _MIB)


def need_of(wanted: Resources) -> Need:
    """Return what a request comes to on each node.

    No number of chips is one per node where a chip is named, and none where none is. `cpu` alone
    is a run on processors; beside other chips it is not a choice that we make.
    """
    chips = tuple(name for name in wanted.chips if name != "cpu")
    if wanted.chips and not chips:
        gpus = 0
    elif wanted.gpus is None:
        gpus = 1 if chips else 0
    else:
        gpus = wanted.gpus // wanted.nodes
    return Need(chips if gpus else (), gpus, wanted.nodes, wanted.cpus, wanted.memory)


def size_text(size: int) -> str:
    """Return a number of bytes as GiB."""
    return f"{size / 2**30:.0f} GiB" if size >= 10 * 2**30 else f"{size / 2**30:.1f} GiB"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return `ada: 2, bob: 1`, the most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name}: {count}" for name, count in ordered)


def having_text(chips: Iterable[str]) -> str:
    """Return the end of "needs h100, …": what is there instead."""
    names = sorted(set(chips))
    return f"has {', '.join(names)}" if names else "has no GPUs"
