"""Choose a partition and a GRES for a request, and say why: a pure function of what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from theseus.dispatch.inventory import SlurmSettings
from theseus.dispatch.providers.base import Placement, Verdict
from theseus.dispatch.providers.request import Need
from theseus.dispatch.providers.slurm_parse import Node, Partition, expand_hosts
from theseus.dispatch.providers.slurm_reasons import GpuType, no_text, now_text, queue_text
from theseus.errors import did_you_mean
from theseus.hardware.chips import chips_by_gres_name
from theseus.hardware.resources import parse_size

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host

_MIB = 2**20


def gpu_type(spelled: str, host: Host, mapping: Mapping[str, str]) -> GpuType:
    """Return what a GRES type means: by the inventory's `gres_mapping` first, then by name.

    A type that is spelled as a chip is that chip. `a100` may be one of several; the host's own
    `chips` may say which. No likeness is used.
    """
    named = {key.casefold(): chip for key, chip in mapping.items()}
    mapped = named.get(spelled.casefold()) if spelled else named.get("gpu")
    if mapped:
        return GpuType(spelled, (mapped,))
    listed = tuple(name for name in host.chips if name != "cpu")
    if not spelled:
        return GpuType(spelled, listed if len(listed) == 1 else ())
    family = tuple(chip.name for chip in chips_by_gres_name(spelled))
    form = spelled.lower().replace("_", "-")
    if form in family:
        family = (form,)
    if len(family) > 1:
        owned = tuple(name for name in family if name in listed)
        family = owned if len(owned) == 1 else family
    return GpuType(spelled, family or (spelled,))


def choose(
    host: Host,
    need: Need,
    nodes: Sequence[Node],
    partitions: Sequence[Partition],
    mapping: Mapping[str, str],
    *,
    holders: Mapping[str, int] | None = None,
) -> Verdict:
    """Return the verdict on a request: the first chip and partition that fit now, else queue."""
    settings = host.slurm or SlurmSettings()
    reachable, missing = _partitions(settings, need, partitions)
    if not reachable:
        return Verdict(host.name, "no", missing or "no partition takes jobs")
    excluded = set(expand_hosts(",".join(settings.exclude)))
    ours = [
        node
        for node in nodes
        if node.name not in excluded
        and any(one.name in node.partitions for one in reachable)
        and _has_features(node, settings.constraint)
    ]
    types = {kind: gpu_type(kind, host, mapping) for node in ours for kind in node.gpus}
    totals, free = _counts(ours, types)
    acceptable = _acceptable(need, types.values())

    def answer(kind: GpuType | None, partition: Partition, fit: str, reason: str) -> Verdict:
        placement = Placement(
            host=host.name,
            chip=kind.name if kind else None,
            gpus_per_node=need.gpus,
            nodes=need.nodes,
            partition=partition.name,
            gres=kind.gres(need.gpus) if kind else None,
        )
        return Verdict(
            host.name,
            "now" if fit == "now" else "queue",
            reason,
            placement,
            free=free,
            total=totals,
            holders=holders or {},
        )

    choices = list(product(acceptable, reachable)) if need.gpus else [(None, p) for p in reachable]
    for kind, partition in choices:
        fitting = _fitting(ours, need, kind, partition, settings, now=True)
        if len(fitting) >= need.nodes:
            return answer(
                kind, partition, "now", now_text(need, kind, partition, fitting, free, totals)
            )
    for kind, partition in choices:
        if len(_fitting(ours, need, kind, partition, settings, now=False)) >= need.nodes:
            reason = queue_text(need, kind, partition, free, holders or {})
            return answer(kind, partition, "queue", reason)
    reason = no_text(need, ours, types, acceptable, reachable, missing)
    return Verdict(host.name, "no", reason, free=free, total=totals, holders=holders or {})


def memory_of(settings: SlurmSettings, need: Need) -> int | None:
    """Return the MiB per node to ask for; None leaves it to the partition."""
    if need.memory_mib is not None:
        return need.memory_mib
    size = parse_size(settings.mem)
    return None if size is None else -(-size // _MIB)


def _partitions(
    settings: SlurmSettings, need: Need, known: Sequence[Partition]
) -> tuple[list[Partition], str | None]:
    """Return the partitions to try, in order, and what is wrong with those that were named."""
    named = (not need.gpus and settings.cpu_partitions) or settings.partitions
    by_name = {one.name: one for one in known}
    ordered = (
        [by_name[name] for name in named if name in by_name]
        if named
        else sorted(known, key=lambda one: not one.default)
    )
    trouble = [
        f"no partition '{name}'{did_you_mean(name, by_name)}"
        for name in named
        if name not in by_name
    ]
    trouble += [f"partition {one.name} is {one.state.lower()}" for one in ordered if not one.up]
    usable = [
        one
        for one in ordered
        if one.up and (one.most_nodes is None or one.most_nodes >= need.nodes)
    ]
    if not usable and not trouble and ordered:
        trouble = [f"no partition allows {need.nodes} nodes"]
    return usable, "; ".join(trouble) or None


def _acceptable(need: Need, types: Iterable[GpuType]) -> list[GpuType]:
    """Return the types that are certainly wanted, the most wanted first."""
    certain = [
        kind
        for kind in types
        if not need.chips or (kind.chips and set(kind.chips) <= set(need.chips))
    ]
    if not need.chips:
        return certain
    return sorted(certain, key=lambda kind: min(map(need.chips.index, kind.chips)))


def _fitting(
    nodes: Sequence[Node],
    need: Need,
    kind: GpuType | None,
    partition: Partition,
    settings: SlurmSettings,
    *,
    now: bool,
) -> list[Node]:
    """Return the nodes of a partition that can take the job's share, now or at all."""
    fitting = []
    for node in nodes:
        if partition.name not in node.partitions or node.use == "never":
            continue
        if now and node.use != "now":
            continue
        gpus = (
            _free(node, kind.spelled)
            if now and kind
            else node.gpus.get(kind.spelled, 0)
            if kind
            else 0
        )
        cpus = node.cpus_free if now else node.cpus
        memory = node.memory_free if now else node.memory
        if gpus < need.gpus or cpus < (need.cpus or 1):
            continue
        if memory < _memory_asked(node, need, partition, settings):
            continue
        fitting.append(node)
    return fitting


def _free(node: Node, spelled: str) -> int:
    return max(node.gpus.get(spelled, 0) - (node.used or {}).get(spelled, 0), 0)


def _memory_asked(node: Node, need: Need, partition: Partition, settings: SlurmSettings) -> int:
    asked = memory_of(settings, need)
    if asked is not None:
        return asked or node.memory  # SLURM reads 0 as all of it
    if partition.memory_per_node is not None:
        return partition.memory_per_node
    if partition.memory_per_cpu is not None:
        return partition.memory_per_cpu * (need.cpus or 1)
    # A job that asks for none gets the whole node's where memory is counted at all.
    return node.memory if node.memory_free < node.memory else 0


def _has_features(node: Node, constraint: str | None) -> bool:
    """Say whether a node has the features asked for; of anything but `a&b`, SLURM must judge."""
    if not constraint or not set(constraint) <= set("&_-.") | set(_WORD):
        return True
    return set(constraint.split("&")) <= set(node.features)


_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _counts(
    nodes: Iterable[Node], types: Mapping[str, GpuType]
) -> tuple[dict[str, int], dict[str, int]]:
    totals: dict[str, int] = {}
    free: dict[str, int] = {}
    for node in nodes:
        for spelled, count in node.gpus.items():
            name = types[spelled].name
            totals[name] = totals.get(name, 0) + count
            free[name] = free.get(name, 0) + (_free(node, spelled) if node.use == "now" else 0)
    return totals, free
