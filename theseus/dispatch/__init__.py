"""Runs on other machines: which there are, who has room, sending a run and watching it.

from theseus.dispatch import submit

run = submit(q.spec().chip("h100").gpu(4))
for text in run.logs(follow=True):
    print(text, end="")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.inventory import Inventory, load_inventory
    from theseus.dispatch.submission import submit

__all__ = ["DispatchedRun", "Inventory", "load_inventory", "runs", "submit"]

_LAZY = {
    "DispatchedRun": "theseus.dispatch.dispatched",
    "Inventory": "theseus.dispatch.inventory",
    "load_inventory": "theseus.dispatch.inventory",
    "submit": "theseus.dispatch.submission",
}


def runs() -> list[DispatchedRun]:
    """Return the runs that were submitted from this machine, the newest first."""
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.registry import Registry

    registry = Registry()
    return [DispatchedRun(entry, registry) for entry in registry.entries()]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        msg = f"module 'theseus.dispatch' has no attribute '{name}'"
        raise AttributeError(msg)
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
