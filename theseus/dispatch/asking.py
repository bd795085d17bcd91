"""The hosts as they were last seen, and asking all of them: for a list, not for a submission."""

from __future__ import annotations

from typing import Any

from theseus.dispatch.inventory import Inventory
from theseus.dispatch.registry import recalled_hosts, remember_hosts
from theseus.hardware.resources import Resources


def last_seen(known: Inventory) -> list[dict[str, Any]]:
    """Return every host in priority order, with what it said when it was last asked."""
    seen = recalled_hosts()
    hosts = [known.hosts[name] for name in known.priority]
    return [
        {
            "name": host.name,
            "type": host.type,
            "cluster": host.cluster.name,
            "chips": dict(host.chips),
            "queues": list(host.queues),
            **seen.get(host.name, {}),
        }
        for host in hosts
    ]


def ask_all(known: Inventory, wanted: Resources | None = None) -> None:
    """Ask all hosts at once what they have free, and keep the answers."""
    from theseus.dispatch.reaching import reach
    from theseus.dispatch.solve import solve

    remember_hosts(solve(known, wanted or Resources(), connect=reach).verdicts)
