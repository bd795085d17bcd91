"""`theseus hosts add`: look at a machine that `ssh` reaches, and propose its entry.

Looking is one program on the host. What follows from its answer is a pure function, so a proposal
can be shown, tested and thrown away; only `write_entry` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from theseus.dispatch._introduce_look import Found, look, read
from theseus.dispatch._inventory_edit import Entry, Line, shown, write_entries
from theseus.dispatch.inventory import Cluster, Inventory, InventoryError
from theseus.hardware.chips import chip_by_device_name, chips_by_gres_name

__all__ = [
    "Folders",
    "Found",
    "Proposal",
    "Question",
    "look",
    "propose",
    "questions",
    "read",
    "write_entry",
]

# The first drivers that run each version of CUDA.
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/
_CUDA13_DRIVER = 580
_CUDA12_DRIVER = 525


@dataclass(frozen=True)
class Folders:
    """The folders that a person is asked for; each may hold `~` and `$SCRATCH`."""

    root: str
    work: str
    log: str | None = None


@dataclass(frozen=True)
class Question:
    """One folder to ask for: the key, what it is for, and what is proposed."""

    key: str
    text: str
    proposed: str


@dataclass(frozen=True)
class Proposal:
    """An entry to show and to write.

    Attributes
    ----------
    entries
        What is written, in order.
    notes
        What a person should know or decide.
    """

    host: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The lines of YAML that will be written."""
        return shown(self.entries)


def write_entry(path: Path, proposal: Proposal) -> None:
    """Add a proposal to the inventory file; every line that is there stays as it is.

    Raises
    ------
    InventoryError
        When that cannot be done; the file is as it was.
    """
    write_entries(path, proposal.entries)


def questions(found: Found) -> tuple[Question, ...]:
    """Return what a person is asked: the folders, and nothing else."""
    roomier = found.free.get("$SCRATCH", 0) > found.free.get("~", 0)
    root = f"{'$SCRATCH' if roomier else '~'}/theseus"
    return (
        Question("root", "data, checkpoints and runs", root),
        Question("work", "code and environments", f"{root}/work"),
        Question("log", "logs of runs", f"{root}/log"),
    )


def propose(
    alias: str,
    found: Found,
    folders: Folders,
    *,
    name: str | None = None,
    inventory: Inventory | None = None,
) -> Proposal:
    """Return the entry of a host, to be shown before it is written.

    Parameters
    ----------
    alias
        What `ssh` is called with.
    name
        What it is called in the inventory; left out: the alias.
    inventory
        What there is already.

    Raises
    ------
    InventoryError
        When there is a host of this name.
    """
    name = name or alias
    if inventory is not None and inventory.names_hosts and name in inventory.hosts:
        msg = (
            f"{inventory.path} has a host '{name}' already: change it there, or give this one "
            "another name"
        )
        raise InventoryError(msg)
    cluster, is_new = _cluster(name, folders, inventory)
    lines = [Line("ssh", alias), Line("cluster", cluster)]
    notes: list[str] = []
    if found.is_slurm:
        lines.append(Line("type", "slurm"))
        lines += _partition_lines(found)
        mapping = inventory.gres_mapping if inventory else {}
        lines += _slurm_chip_lines(found, mapping, notes)
    else:
        lines.append(Line("type", "plain"))
        lines += _chip_lines(found, notes)
    lines += _environment_lines(found, notes)
    notes += [f"could not be told: {line}" for line in found.trouble]
    entries = [Entry("hosts", name, tuple(lines))]
    if is_new:
        of_cluster = [Line("root", folders.root), Line("work", folders.work)]
        of_cluster += [Line("log", folders.log)] if folders.log else []
        entries.insert(0, Entry("clusters", cluster, tuple(of_cluster)))
    if inventory is None or not inventory.names_hosts:
        # Once a file names hosts it names them all, this machine too.
        entries.append(Entry("hosts", "local", (Line("type", "local", "this machine"),)))
    return Proposal(name, tuple(entries), tuple(notes))


def _cluster(name: str, folders: Folders, inventory: Inventory | None) -> tuple[str, bool]:
    """Return the name of a cluster with these folders, and whether it is a new one."""
    known: Mapping[str, Cluster] = inventory.clusters if inventory else {}
    wanted = (folders.root, folders.work, folders.log)
    for cluster in known.values():
        if (cluster.root, cluster.work, cluster.log) == wanted and cluster.name != "local":
            return cluster.name, False
    free = (f"{name}{ending}" for ending in ("", *(f"-{number}" for number in range(2, 1000))))
    return next(one for one in free if one not in {*known, "local"}), True


def _partition_lines(found: Found) -> list[Line]:
    """Return the partitions that take jobs: those with GPUs, the default one first, and others."""
    ordered = sorted((one for one in found.partitions if one.up), key=lambda one: not one.default)
    with_gpus: list[str] = []
    without: list[str] = []
    said: list[str] = []
    for partition in ordered:
        nodes = [node for node in found.nodes if partition.name in node.partitions]
        kinds: dict[str, int] = {}
        for node in nodes:
            for kind, count in node.gpus.items():
                kinds[kind] = kinds.get(kind, 0) + count
        (with_gpus if kinds else without).append(partition.name)
        if kinds:
            counts = (f"{count} × {kind or 'gpu'}" for kind, count in kinds.items())
            said.append(f"{partition.name}: {', '.join(counts)}")
    lines = [Line("partitions", with_gpus or without, "; ".join(said))]
    return [*lines, Line("cpu_partitions", without)] if with_gpus and without else lines


def _slurm_chip_lines(found: Found, mapping: Mapping[str, str], notes: list[str]) -> list[Line]:
    """Return the chips whose GRES type says which they are; of the others, what to decide."""
    totals: dict[str, int] = {}
    for node in found.nodes:
        for kind, count in node.gpus.items():
            totals[kind] = totals.get(kind, 0) + count
    chips: dict[str, int] = {}
    doubts: list[str] = []
    for kind, count in totals.items():
        family = [chip.name for chip in chips_by_gres_name(kind)]
        named = mapping.get(kind) or (family[0] if len(family) == 1 else None)
        if named is None and kind in family:
            named = kind
            others = ", ".join(other for other in family if other != kind)
            doubts.append(f"{kind} may be {others} too: change it if so")
        if named is not None:
            chips[named] = chips.get(named, 0) + count
        elif not kind:
            notes.append(
                f"{count} GPUs have no type in SLURM: name them in `chips:`, such as {{h100: {count}}}"
            )
        elif family:
            notes.append(
                f"SLURM's type '{kind}' may be {' or '.join(family)}: say which in gres_mapping, "
                f"such as '{kind}: {family[0]}'"
            )
        else:
            notes.append(
                f"SLURM's type '{kind}' is no chip that theseus knows: if it is one under another "
                f"name, say so in gres_mapping, such as '{kind}: h100'"
            )
    return [Line("chips", chips, "; ".join(doubts))] if chips else []


def _chip_lines(found: Found, notes: list[str]) -> list[Line]:
    chips: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for product in found.gpus:
        chip = chip_by_device_name(product)
        if chip is None:
            unknown[product] = unknown.get(product, 0) + 1
        else:
            chips[chip.name] = chips.get(chip.name, 0) + 1
    notes += [
        f"{count} × '{product}' is not in the catalogue of chips: it is used under this name"
        for product, count in unknown.items()
    ]
    if found.devices and not found.gpus:
        notes.append(
            f"{len(found.devices)} accelerators are there that are no NVIDIA GPUs: name TPUs in "
            "`chips:`, such as {tpu-v4: 4}, and put tpu in uv_groups"
        )
    return [Line("chips", chips)] if chips else []


def _environment_lines(found: Found, notes: list[str]) -> list[Line]:
    """Return how a run gets its Python there: by `uv`, or one that is prepared."""
    ready = next((one for one in found.pythons if one.is_ready), None)
    if found.uv is None and ready is not None:
        return [Line("python", ready.path, "has JAX and theseus; uv is not installed")]
    if found.uv is None:
        notes.append(
            "neither uv nor a Python with JAX and theseus is there: install uv "
            "(pip install --user uv, or https://docs.astral.sh/uv/), or prepare an environment "
            "and name its Python in `python:`"
        )
    on_nodes = any(node.gpus for node in found.nodes)
    if not found.gpus and not on_nodes:
        return [Line("uv_groups", ["all", "cpu"])]
    if found.driver is None:
        return [Line("uv_groups", ["all", "cuda12"], "cuda13 where the driver is 580 or newer")]
    if found.driver < _CUDA12_DRIVER:
        notes.append(
            f"the NVIDIA driver is {found.driver}: JAX needs {_CUDA12_DRIVER} or newer for its GPUs"
        )
    flavour = "cuda13" if found.driver >= _CUDA13_DRIVER else "cuda12"
    return [Line("uv_groups", ["all", flavour], f"for driver {found.driver}")]
