"""Choose a partition and a GRES for a request, and say why: a pure function of what was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from theseus.dispatch.providers.base import Placement, Verdict
from theseus.dispatch.providers.request import Need, counts_text, having_text
from theseus.dispatch.providers.slurm_parse import Node, Partition, expand_hosts
from theseus.errors import did_you_mean
from theseus.hardware.chips import chips_by_gres_name
from theseus.hardware.resources import parse_size

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host, SlurmSettings

_MIB = 2**20


@dataclass(frozen=True)
class GpuType:
    """A GRES type of the cluster and the chips that it may be."""

    spelled: str
    chips: tuple[str, ...]

    @property
    def name(self) -> str:
        """The chip where that is certain, the cluster's own word where it is not."""
        return self.chips[0] if len(self.chips) == 1 else self.spelled or "gpu"

    def gres(self, count: int) -> str:
        """Return the request for so many, as the cluster spells it."""
        return f"gpu:{self.spelled}:{count}" if self.spelled else f"gpu:{count}"


def gpu_type(spelled: str, host: Host, mapping: Mapping[str, str]) -> GpuType:
    """Return what a GRES type means: by the inventory's `gres_mapping` first, then by name.

    `a100` may be one of several chips; the host's own `chips` may say which. No likeness is used.
    """
    named = {key.casefold(): chip for key, chip in mapping.items()}
    mapped = named.get(spelled.casefold()) if spelled else named.get("gpu")
    if mapped:
        return GpuType(spelled, (mapped,))
    listed = tuple(name for name in host.chips if name != "cpu")
    if not spelled:
        return GpuType(spelled, listed if len(listed) == 1 else ())
    family = tuple(chip.name for chip in chips_by_gres_name(spelled))
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
    settings = host.slurm
    reachable, missing = _partitions(settings, need, partitions)
    if not reachable:
        return Verdict(host.name, "no", missing or "no partition takes jobs")
    excluded = set(expand_hosts(",".join(settings.exclude))) if settings else set()
    ours = [
        node
        for node in nodes
        if node.name not in excluded
        and any(one.name in node.partitions for one in reachable)
        and _has_features(node, settings.constraint if settings else None)
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
                kind, partition, "now", _now_text(need, kind, partition, fitting, free, totals)
            )
    for kind, partition in choices:
        if len(_fitting(ours, need, kind, partition, settings, now=False)) >= need.nodes:
            reason = _queue_text(need, kind, partition, free, holders or {})
            return answer(kind, partition, "queue", reason)
    reason = _no_text(need, ours, types, acceptable, reachable, missing)
    return Verdict(host.name, "no", reason, free=free, total=totals, holders=holders or {})


def memory_of(settings: SlurmSettings | None, need: Need) -> int | None:
    """Return the MiB per node to ask for; None leaves it to the partition."""
    if need.memory_mib is not None:
        return need.memory_mib
    size = parse_size(settings.mem) if settings and settings.mem else None
    return None if size is None else -(-size // _MIB)


def _partitions(
    settings: SlurmSettings | None, need: Need, known: Sequence[Partition]
) -> tuple[list[Partition], str | None]:
    """Return the partitions to try, in order, and what is wrong with those that were named."""
    named: Iterable[str] = ()
    if settings:
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
    settings: SlurmSettings | None,
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


def _memory_asked(
    node: Node, need: Need, partition: Partition, settings: SlurmSettings | None
) -> int:
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


# What is said


def _now_text(
    need: Need,
    kind: GpuType | None,
    partition: Partition,
    fitting: Sequence[Node],
    free: Mapping[str, int],
    totals: Mapping[str, int],
) -> str:
    if kind:
        text = f"{free[kind.name]} of {totals[kind.name]} {kind.name} free in {partition.name}"
    else:
        text = f"{sum(node.cpus_free for node in fitting)} CPUs free in {partition.name}"
    planned = sum("PLANNED" in node.state or node.state.endswith("-") for node in fitting)
    if len(fitting) - planned < need.nodes:
        text += ", planned for another job: a short run only"
    return text


def _queue_text(
    need: Need,
    kind: GpuType | None,
    partition: Partition,
    free: Mapping[str, int],
    holders: Mapping[str, int],
) -> str:
    held = f" ({counts_text(holders)})" if holders else ""
    if kind is None:
        return f"{need.text} busy, can queue in {partition.name}"
    at_hand = free.get(kind.name, 0)
    if at_hand >= need.gpus * need.nodes:
        why = f"{at_hand} {kind.name} free, but not together with the processors, memory or nodes"
        return f"{why} asked for; can queue in {partition.name}"
    share = need.gpus if need.nodes == 1 else f"{need.nodes} × {need.gpus}"
    return f"{share} × {kind.name} busy{held}, can queue in {partition.name}"


def _no_text(
    need: Need,
    nodes: Sequence[Node],
    types: Mapping[str, GpuType],
    acceptable: Sequence[GpuType],
    partitions: Sequence[Partition],
    missing: str | None,
) -> str:
    also = f" ({missing})" if missing else ""
    where = "/".join(one.name for one in partitions)
    if not need.gpus:
        dead = _dead(nodes)
        return (
            dead or f"needs {need.text}{_memory_text(need)}, more than a node of {where} has{also}"
        )
    unclear = [
        kind
        for kind in types.values()
        if len(kind.chips) != 1 and set(kind.chips or need.chips) & set(need.chips)
    ]
    if need.chips and not acceptable and unclear:
        kind = unclear[0]
        may_be = f"may be {' or '.join(kind.chips)}" if kind.chips else "does not say which chip"
        return f"GRES type '{kind.spelled or 'gpu'}' {may_be}: name it in gres_mapping"
    if not acceptable:
        names = [kind.name for kind in types.values()]
        return f"needs {' or '.join(need.chips) or 'GPUs'}, {having_text(names)}{also}"
    spelled = {kind.spelled for kind in acceptable}
    having = [node for node in nodes if spelled & set(node.gpus)]
    alive = [node for node in having if node.use != "never"]
    if len(alive) < need.nodes:
        return (
            _dead(having) or f"needs {need.nodes} nodes with {acceptable[0].name}, has {len(alive)}"
        )
    most = max(node.gpus[kind] for node in alive for kind in spelled & set(node.gpus))
    names = " or ".join(kind.name for kind in acceptable)
    if most < need.gpus:
        return f"needs {need.gpus} × {names} in one node, a node has at most {most}{also}"
    return f"no {need.nodes} node(s) with {need.gpus} × {names} have{_memory_text(need) or ' the rest of what is'} asked for{also}"


def _memory_text(need: Need) -> str:
    parts = [f"{need.cpus} CPUs"] if need.cpus and need.gpus else []
    parts += [f"{need.memory_mib / 1024:.0f} GiB"] if need.memory_mib else []
    return f" {' and '.join(parts)}" if parts else ""


def _dead(nodes: Sequence[Node]) -> str | None:
    """Return which nodes cannot be used, and what SLURM says about them."""
    dead = [node for node in nodes if node.use == "never"]
    if not dead:
        return None
    shown = [f"{node.name} {node.state.lower()}{_because(node)}" for node in dead[:3]]
    more = f" and {len(dead) - 3} more" if len(dead) > 3 else ""
    return f"nodes cannot be used: {'; '.join(shown)}{more}"


def _because(node: Node) -> str:
    return f" ({node.reason})" if node.reason else ""
