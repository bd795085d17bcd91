"""The reason that goes with a choice on a SLURM cluster: one line for a person. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from theseus.dispatch.providers.request import Need, counts_text, having_text, size_text
from theseus.dispatch.providers.slurm_parse import Node, Partition


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


def now_text(
    need: Need,
    kind: GpuType | None,
    partition: Partition,
    fitting: Sequence[Node],
    free: Mapping[str, int],
    totals: Mapping[str, int],
) -> str:
    """Return what is free, for a request that fits now."""
    if kind:
        text = f"{free[kind.name]} of {totals[kind.name]} {kind.name} free in {partition.name}"
    else:
        text = f"{sum(node.cpus_free for node in fitting)} CPUs free in {partition.name}"
    planned = sum("PLANNED" in node.state or node.state.endswith("-") for node in fitting)
    if len(fitting) - planned < need.nodes:
        text += ", planned for another job: a short run only"
    return text


def queue_text(
    need: Need,
    kind: GpuType | None,
    partition: Partition,
    free: Mapping[str, int],
    holders: Mapping[str, int],
) -> str:
    """Return what a request would wait for."""
    held = f" ({counts_text(holders)})" if holders else ""
    if kind is None:
        return f"{need.text} busy, can queue in {partition.name}"
    at_hand = free.get(kind.name, 0)
    if at_hand >= need.gpus * need.nodes:
        why = f"{at_hand} {kind.name} free, but not together with the processors, memory or nodes"
        return f"{why} asked for; can queue in {partition.name}"
    share = need.gpus if need.nodes == 1 else f"{need.nodes} × {need.gpus}"
    return f"{share} × {kind.name} busy{held}, can queue in {partition.name}"


def no_text(
    need: Need,
    nodes: Sequence[Node],
    types: Mapping[str, GpuType],
    acceptable: Sequence[GpuType],
    partitions: Sequence[Partition],
    missing: str | None,
) -> str:
    """Return why a request can never fit."""
    also = f" ({missing})" if missing else ""
    where = "/".join(one.name for one in partitions)
    if not need.gpus:
        dead = _dead(nodes)
        return (
            dead or f"needs {need.text}{_memory_text(need)}, more than a node of {where} has{also}"
        )
    doubtful = [
        kind
        for kind in types.values()
        if len(kind.chips) != 1 and set(kind.chips or need.chips) & set(need.chips)
    ]
    if need.chips and not acceptable and doubtful:
        kind = doubtful[0]
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
    wanted = " or ".join(kind.name for kind in acceptable)
    if most < need.gpus:
        return f"needs {need.gpus} × {wanted} in one node, a node has at most {most}{also}"
    beside = _memory_text(need) or " what the partition gives"
    return f"needs {need.text} with{beside} in each node, no node has both{also}"


def _memory_text(need: Need) -> str:
    cpus = f"{need.cpus} CPUs" if need.cpus and need.gpus else ""
    memory = size_text(need.memory) if need.memory else ""
    text = " and ".join(filter(None, (cpus, memory)))
    return f" {text}" if text else ""


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
