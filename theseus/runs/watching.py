"""Who shows a run while it works: chosen here by name, so that this room knows no view.

A view is a class named as text (`module:Class`) and imported when a run starts. It is told what
happens from one thread at a time, a few times a second at most, never from the thread that trains,
except for `started` and `ended`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from theseus.errors import UserError, did_you_mean
from theseus.job import Number
from theseus.runs.run import Run
from theseus.runs.summary import Summary

NOTEBOOK = "theseus.notebook.live:LiveView"
TERMINAL = "theseus.cli.progress:TerminalView"
CHOICE = "THESEUS_PROGRESS"
CHOICES = ("auto", "plain", "none")


@dataclass(frozen=True)
class Opening:
    """What a view is told when a run is opened.

    Attributes
    ----------
    attempt
        1 for the first execution, one more for each continuation.
    finished
        The run had finished before: it is shown, and nothing is executed.
    """

    attempt: int
    finished: bool


class Watcher(Protocol):
    """A view of a run that works in this process."""

    def started(self, run: Run, opening: Opening) -> None:
        """Begin to show `run`; called in the thread that runs the job."""

    def report(self, step: int, tokens: int, values: Mapping[str, Number]) -> None:
        """Take in one line of metrics; every line is passed on, in order."""

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Take in an event; every event is passed on, in order with the reports."""

    def update(self, summary: Summary) -> None:
        """Draw if it is time to; it is the same object as before when nothing has changed."""

    def ended(self, run: Run) -> None:
        """Show how it ended; called in the thread that ran the job, after everything else."""


def chosen_watchers(failed: Callable[[str], None]) -> list[Watcher]:
    """Return the view for where this process runs: a notebook, a terminal, or none.

    The environment variable `THESEUS_PROGRESS` overrides the choice: `plain` prints lines now and
    then, `none` prints nothing.

    Parameters
    ----------
    failed
        Told why there is no view, when the one that was chosen cannot be made.
    """
    choice = os.environ.get(CHOICE) or "auto"
    if choice not in CHOICES:
        hint = did_you_mean(choice, CHOICES)
        msg = f"the environment variable {CHOICE} is '{choice}'{hint}; it may be one of {CHOICES}"
        raise UserError(msg)
    if choice == "none":
        return []
    target = NOTEBOOK if choice == "auto" and _in_notebook() else TERMINAL
    try:
        return [_load(target)()]
    except Exception as error:  # noqa: BLE001 - a view must never end a training
        failed(f"the run is not shown: {type(error).__name__}: {error}")
        return []


def _in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this code, without importing IPython to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return any(cls.__name__ == "ZMQInteractiveShell" for cls in type(shell).__mro__)


def _load(target: str) -> Callable[[], Watcher]:
    module, name = target.split(":")
    loaded: Callable[[], Watcher] = getattr(importlib.import_module(module), name)
    return loaded


def note_of(kind: str, facts: Mapping[str, Any]) -> str | None:
    """Return what a view tells its reader about an event, or None for one that needs no words."""
    if kind == "stopping":
        return (
            f"{str(facts.get('reason', 'asked to stop')).capitalize()}: ends at the next safe "
            "point, with its state saved. Once more ends it at once."
        )
    if kind == "resumed" and facts.get("step") is not None:
        return f"Goes on from step {facts['step']:,}."
    if kind == "warning":
        return str(facts.get("message", ""))
    return None


class Audience:
    """All views of a run. One that fails is told nothing more; the run goes on."""

    def __init__(self, watchers: Iterable[Watcher], failed: Callable[[str], None]) -> None:
        self._watchers = list(watchers)
        self._failed = failed

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def tell(self, tell: Callable[[Watcher], None]) -> None:
        """Tell every view something."""
        for watcher in list(self._watchers):
            try:
                tell(watcher)
            except Exception as error:  # noqa: BLE001 - a view must never end a training
                self._watchers.remove(watcher)
                name = type(watcher).__name__
                self._failed(f"{name} stopped showing the run: {type(error).__name__}: {error}")
