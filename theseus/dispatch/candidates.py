"""Which hosts could take a request, from the inventory and what was last seen; nobody is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from theseus.dispatch.inventory import Host, Inventory
from theseus.dispatch.providers.request import Need, need_of
from theseus.dispatch.solve import ruled_out
from theseus.hardware.resources import Resources

_SINGLE = ("plain", "local")  # kinds of hosts that are one machine


@dataclass(frozen=True)
class Candidate:
    """What is known here of one host and a request.

    Attributes
    ----------
    could
        Whether it has what is asked for, free or not; None where that is not known.
    chips, free
        Chips by name: those that the host has, and those that were free when it was last asked.
    probed
        When that was, unix seconds; None: never.
    """

    name: str
    type: str
    could: bool | None
    reason: str
    chips: Mapping[str, int] = field(default_factory=dict)
    free: Mapping[str, int] | None = None
    probed: float | None = None


def candidates(
    inventory: Inventory, wanted: Resources, seen: Mapping[str, Mapping[str, Any]]
) -> list[Candidate]:
    """Return every host with what can be said of it, in priority order.

    Parameters
    ----------
    seen
        Host → facts of its last answer, as `theseus.dispatch.registry.recalled_hosts` keeps them.
    """
    need = need_of(wanted)
    return [
        _judged(inventory.hosts[name], wanted, need, seen.get(name, {}))
        for name in inventory.priority
    ]


def _judged(host: Host, wanted: Resources, need: Need, facts: Mapping[str, Any]) -> Candidate:
    probed = facts.get("probed")
    total, free = _counts(facts.get("total")), _counts(facts.get("free"))
    chips = total or dict(host.chips)
    out = ruled_out(host, wanted)
    could, reason = (False, out.reason) if out else _could(host, need, chips)
    return Candidate(
        host.name,
        host.type,
        could,
        reason,
        chips,
        free if total else None,
        float(probed) if isinstance(probed, int | float) and probed else None,
    )


def _could(host: Host, need: Need, chips: Mapping[str, int]) -> tuple[bool | None, str]:
    if need.nodes > 1 and host.type in _SINGLE:
        return False, f"is one machine, {need.nodes} are asked for"
    if not need.gpus:
        return True, ""
    if not chips:
        return None, "names no chips and was not asked yet"
    count = need.gpus * need.nodes
    kinds = need.chips or tuple(chips)
    if any(chips.get(kind, 0) >= count for kind in kinds):
        return True, ""
    most = max(chips.get(kind, 0) for kind in kinds)
    named = " or ".join(need.chips) or "of one kind"
    if not most:
        return False, f"has no {named}, but {', '.join(chips)}"
    return False, f"has {most} {named}, {count} are asked for"


def _counts(found: Any) -> dict[str, int]:
    if not isinstance(found, Mapping):
        return {}
    return {str(name): count for name, count in found.items() if isinstance(count, int)}
