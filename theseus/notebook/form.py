"""`ConfigForm`: a recipe's configuration as a form that edits it, and follows it.

    q                      # a recipe shows itself as its form
    ConfigForm(q)          # another view of the same

A control sets `q.config` at once, with the checks of an assignment. What code changes is in the
form when the cell ends. The form keeps no values of its own: what it shows is read from the
configuration each time.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import traitlets

from theseus import config as configuration
from theseus import snippets
from theseus._nodes import schema_of
from theseus.config import ConfigError
from theseus.notebook import front
from theseus.notebook.figures import Figures
from theseus.notebook.form_fields import Cell, cells, difference, fields, typed
from theseus.notebook.widget import Widget

if TYPE_CHECKING:
    from theseus.quick import QuickJob

_REMEMBERED = 500  # steps that can be undone


@dataclass
class _Step:
    """One change: key → (value before, value after), as they were set."""

    values: dict[str, tuple[Any, Any]]
    burst: str = ""  # edits of one key in one go are one step


@dataclass
class _History:
    done: list[_Step] = field(default_factory=list)
    undone: list[_Step] = field(default_factory=list)

    def add(self, step: _Step) -> None:
        self.undone.clear()
        last = self.done[-1] if self.done else None
        if (
            last
            and step.burst
            and last.burst == step.burst
            and last.values.keys() == step.values.keys()
        ):
            for key, (_, after) in step.values.items():
                last.values[key] = (last.values[key][0], after)
            return
        self.done.append(step)
        del self.done[:-_REMEMBERED]


class ConfigForm(Widget):
    """A form for the configuration of a recipe.

    Parameters
    ----------
    recipe
        A `QuickJob`; its job may be chosen later or anew (`q.build(…)`), the form follows.
    """

    _esm = front.esm("form")
    _css = front.css("form")

    # Read from the configuration whenever a front end asks: a page that is loaded again, too.
    form = traitlets.Any(None).tag(sync=True, to_json=lambda _, widget: widget._state())

    def __init__(self, recipe: QuickJob) -> None:
        self._recipe = recipe
        self._built: Any = None
        self._generation = 0
        self._revision = 0
        self._cells: dict[str, Cell] = {}
        self._raw: dict[str, Any] = {}
        self._history = _History()
        self._figures = Figures(recipe, self._on_figures)
        self._take()
        super().__init__()
        _forms.add(self)
        _follow_cells()

    @property
    def recipe(self) -> QuickJob:
        """The recipe whose configuration is shown."""
        return self._recipe

    def text(self) -> str:
        """Return the recipe's facts as text."""
        return self._recipe._card().text()

    def html(self) -> str:
        """Return the recipe's facts as a static table."""
        return self._recipe._card().html()

    def refresh(self) -> None:
        """Show the configuration as it is now; called when a cell ends."""
        with self.lock:
            if self._now() is not self._built:
                self._take()
                self.tell({"type": "form", "form": self._state()})
            elif changes := self._changes():
                self._history.add(_Step(changes))
                self._show()

    # Messages

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take what a view asks for."""
        kind = message.get("type")
        if kind == "hello":
            self.refresh()
            if message.get("revision") != self._revision:
                self.tell({"type": "form", "form": self._state()})
            self._figures.ask()
            return
        if kind == "code":
            self.refresh()
            self.tell({"type": "code", **self._code()})
            return
        self._edit(message)
        for other in list(_forms):
            if other is not self and other._recipe is self._recipe:
                other.refresh()

    def _edit(self, message: Mapping[str, Any]) -> None:
        number, key = message.get("id"), str(message.get("key", ""))
        self.refresh()  # what code changed meanwhile is a step of its own
        if message.get("generation") != self._generation:
            told = f"{key}: not taken, the recipe was built anew meanwhile; set it again"
            self.tell({"type": "refused", "id": number, "key": key, "message": told})
            return
        try:
            burst = self._act(message, key)
        except ConfigError as error:
            self.tell({"type": "refused", "id": number, "key": key, "message": str(error)})
            return
        changes = self._changes()
        if changes and burst is not None:
            self._history.add(_Step(changes, burst))
        self._show(number)

    def _act(self, message: Mapping[str, Any], key: str) -> str | None:
        """Change the configuration; what is returned marks the step, None is no new step."""
        config, kind = self._recipe.config, message["type"]
        if kind == "set":
            text = message.get("text")
            configuration.assign(config, key, typed(config, key, text))
            return str(message.get("burst", ""))
        if kind == "reset":
            schema = schema_of(config)
            wanted = [key] if key else list(schema)
            for name in wanted:
                configuration.assign(config, name, schema[name].default)
            return ""
        here, there = self._history.done, self._history.undone
        if kind == "redo":
            here, there = there, here
        if here:
            step = here.pop()
            for name, (before, after) in step.values.items():
                configuration.assign(config, name, after if kind == "redo" else before)
            there.append(step)
        return None

    # What is shown

    def _now(self) -> Any:
        return self._recipe.config if self._recipe.has_config else None

    def _take(self) -> None:
        """Begin with the configuration that the recipe has now."""
        self._built = self._now()
        self._generation += 1
        self._revision += 1
        self._history = _History()
        self._cells = cells(self._built) if self._built is not None else {}
        self._raw = self._raw_values()
        self._figures.changed()

    def _raw_values(self) -> dict[str, Any]:
        config = self._built
        if config is None:
            return {}
        return {key: configuration.raw_value(config, key) for key in schema_of(config)}

    def _changes(self) -> dict[str, tuple[Any, Any]]:
        """Return key → (before, after) for what is not yet shown, and remember it as shown."""
        before, after = self._raw, self._raw_values()
        self._raw = after
        return {
            key: (before[key], value)
            for key, value in after.items()
            if type(before[key]) is not type(value) or before[key] != value
        }

    def _show(self, number: Any = None) -> None:
        """Send what differs from what was sent before."""
        before, self._cells = self._cells, cells(self._built)
        changed = difference(before, self._cells)
        if changed:
            self._revision += 1
            self._figures.changed()
        self.tell(
            {
                "type": "cells",
                "id": number,
                "revision": self._revision,
                "cells": changed,
                "undo": len(self._history.done),
                "redo": len(self._history.undone),
                **({"figures": self._figures.shown} if changed else {}),
            }
        )

    def _on_figures(self) -> None:
        with self.lock:
            self.tell({"type": "figures", "figures": self._figures.shown})

    def _state(self) -> dict[str, Any]:
        with self.lock:
            recipe = self._recipe
            if self._built is None:
                return {"generation": self._generation, "revision": self._revision, "keys": []}
            return {
                "generation": self._generation,
                "revision": self._revision,
                "job": recipe.job,
                "name": recipe.name,
                "root": str(recipe.root),
                "keys": fields(self._built),
                "cells": self._cells,
                "undo": len(self._history.done),
                "redo": len(self._history.undone),
                "figures": self._figures.shown,
            }

    def _code(self) -> dict[str, str]:
        if self._built is None:
            return {"python": "", "yaml": "", "command": ""}
        return {
            "python": snippets.python(self._built),
            "yaml": snippets.as_yaml(self._built),
            "command": snippets.command(self._built, self._recipe.job),
        }


def bundle_of(recipe: QuickJob) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how a recipe shows itself: its one form, as often as it is shown."""
    form = _own.get(recipe)
    if form is None:
        form = _own[recipe] = ConfigForm(recipe)
    form.refresh()
    bundle: Callable[[], tuple[dict[str, Any], dict[str, Any]]] = form._repr_mimebundle_
    return bundle()


_forms: weakref.WeakSet[ConfigForm] = weakref.WeakSet()
_own: weakref.WeakKeyDictionary[QuickJob, ConfigForm] = weakref.WeakKeyDictionary()


def _follow_cells() -> None:
    """Have every form look at its configuration when a cell ends."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive else None
    if shell is not None and _after_cell not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _after_cell)


def _after_cell(*_: Any) -> None:
    for form in list(_forms):
        form.refresh()
