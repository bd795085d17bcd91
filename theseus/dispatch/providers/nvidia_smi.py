"""Read what `nvidia-smi` prints: which GPUs there are, and which of them are free.

Everything here is total: a line that means nothing to us is kept as a fault, never an exception.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from theseus.hardware.chips import chip_by_device_name

# The name may hold commas, so it is what lies between the columns left and right of it.
BASE_COLUMNS = ("index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu")
COLUMNS = (*BASE_COLUMNS, "mig.mode.current", "display_active")

_MIB = 2**20
# An idle data-center GPU holds a few MiB; a process that has only opened CUDA, several hundred.
_IDLE = 256 * _MIB
# A desktop draws on the GPU that drives its screen, and that is no reason to leave it idle.
_IDLE_WITH_DISPLAY = 2048 * _MIB
_LOST = re.compile(r"unknown error|gpu is lost|requires reset", re.IGNORECASE)
_HANDLE = re.compile(r"unable to determine the device handle|gpu is lost", re.IGNORECASE)


@dataclass(frozen=True)
class Gpu:
    """One GPU as `nvidia-smi` reports it.

    Attributes
    ----------
    memory, used
        Bytes; None where the driver does not say (`[N/A]` on chips that share the machine's).
    utilization
        Per cent. Says nothing about being free: a run that loads its data shows 0.
    mig
        Split into slices: the whole of it cannot be used.
    broken
        What the driver said in place of its memory.
    """

    index: int
    uuid: str
    name: str
    memory: int | None
    used: int | None
    utilization: float | None = None
    mig: bool = False
    display: bool = False
    broken: str | None = None

    @property
    def chip(self) -> str:
        """The canonical name; the device's own where the catalogue does not list it."""
        known = chip_by_device_name(self.name)
        return known.name if known else self.name


@dataclass(frozen=True)
class Reading:
    """The GPUs of one machine, how many cards did not answer, and what was said beside."""

    gpus: tuple[Gpu, ...]
    bad: int = 0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a GPU."""

    uuid: str
    pid: int
    name: str
    used: int | None


def parse_gpus(text: str, columns: Sequence[str] = BASE_COLUMNS) -> Reading:
    """Return the GPUs in the output of `--query-gpu=<columns> --format=csv,noheader`.

    With or without `nounits`, and with a header or not.
    """
    gpus, faults = [], []
    unanswered = nameless = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        row = _row(line, columns)
        if row is None or not row["uuid"]:
            if line.startswith(columns[0]):
                continue
            faults.append(line)
            unanswered += bool(_HANDLE.search(line))
            nameless += row is None and bool(_LOST.match(line.lstrip("[")))
            continue
        gpus.append(_gpu(row))
    # A card without a handle may be followed by a row of errors that stands for the same card.
    bad = max(unanswered, nameless) + sum(gpu.broken is not None for gpu in gpus)
    return Reading(tuple(gpus), bad, tuple(faults))


def parse_processes(text: str) -> tuple[GpuProcess, ...]:
    """Return the rows of `--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory`."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 4 or not cells[1].isdecimal():
            continue
        name = ",".join(cells[2:-1])
        found.append(GpuProcess(cells[0], int(cells[1]), name, _bytes(cells[-1])))
    return tuple(found)


def steadied(readings: Sequence[Reading]) -> Reading:
    """Return one reading of several taken in a row: the least memory, the median utilization.

    A process that ends leaves its memory behind for a moment; one look cannot tell.
    """
    first, *others = readings
    gpus = []
    for gpu in first.gpus:
        same = [gpu, *(one for other in others for one in other.gpus if one.uuid == gpu.uuid)]
        used = [one.used for one in same if one.used is not None]
        busy = [one.utilization for one in same if one.utilization is not None]
        gpus.append(
            replace(
                gpu,
                used=min(used, default=None),
                utilization=statistics.median(busy) if busy else None,
            )
        )
    return replace(first, gpus=tuple(gpus))


def why_not_free(gpu: Gpu, processes: Collection[GpuProcess] = ()) -> str | None:
    """Return what keeps a GPU from being used, or None when it is free.

    Its processes are judged by the caller, who knows whose they are; any of them is enough here.
    """
    if gpu.broken:
        return f"answers {gpu.broken}"
    if gpu.mig:
        return "split by MIG"
    if any(process.uuid == gpu.uuid for process in processes):
        return "in use"
    allowed = _IDLE_WITH_DISPLAY if gpu.display else _IDLE
    if gpu.used is not None and gpu.used > allowed:
        return f"{gpu.used / 2**30:.1f} GiB held by no process that is listed"
    return None


def _row(line: str, columns: Sequence[str]) -> dict[str, str] | None:
    cells = [cell.strip() for cell in line.split(",")]
    left = columns.index("name")
    right = len(columns) - left - 1
    if len(cells) < len(columns) or not cells[columns.index("index")].isdecimal():
        return None
    name = ", ".join(cells[left : len(cells) - right])
    return dict(zip(columns, [*cells[:left], name, *cells[len(cells) - right :]], strict=True))


def _gpu(row: dict[str, str]) -> Gpu:
    known = chip_by_device_name(row["name"])
    memory = _bytes(row["memory.total"])
    said = next(
        (row[name] for name in ("memory.total", "memory.used") if _LOST.search(row[name])), None
    )
    return Gpu(
        index=int(row["index"]),
        uuid=row["uuid"],
        name=row["name"],
        memory=memory if memory is not None else (known.memory_bytes if known else None),
        used=_bytes(row["memory.used"]),
        utilization=_number(row["utilization.gpu"]),
        mig=row.get("mig.mode.current", "").lower() == "enabled",
        display=row.get("display_active", "").lower() == "enabled",
        broken=said,
    )


def _bytes(cell: str) -> int | None:
    number = _number(cell)
    return None if number is None else round(number * _MIB)


def _number(cell: str) -> float | None:
    found = re.match(r"\d+(\.\d+)?(?=\s|%|$)", cell, re.ASCII)
    return float(found[0]) if found else None
