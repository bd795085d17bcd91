"""Runs: one execution of a job, its folder and its records; the list of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theseus.runs.opening import open_run
    from theseus.runs.run import Run, list_runs

__all__ = ["Run", "list_runs", "open_run"]

# Looked up when they are used: what only reads a record or says a number needs neither.
_LAZY = {
    "Run": "theseus.runs.run",
    "list_runs": "theseus.runs.run",
    "open_run": "theseus.runs.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        msg = f"module 'theseus.runs' has no attribute '{name}'"
        raise AttributeError(msg)
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
