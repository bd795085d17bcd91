"""The read-outs of a form: the quick ones at once, those of the model a moment later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from theseus.errors import UserError
from theseus.notebook import threads
from theseus.readouts import Readout, model_readouts, quick_readouts, told_problem

if TYPE_CHECKING:
    from theseus.quick import QuickJob

PAUSE = 0.3  # seconds without a change before the model is looked at


class Figure(TypedDict, total=False):
    """A read-out as the front end takes it."""

    name: str
    text: str
    note: str
    key: str


class Figures:
    """Keeps the read-outs of a recipe; the slow ones are found on a thread that ends by itself.

    Parameters
    ----------
    told
        Called, on that thread, when slow read-outs are there.
    """

    def __init__(self, recipe: QuickJob, told: Callable[[], None]) -> None:
        self._recipe, self._told = recipe, told
        self._guard = threading.Condition()
        self._wanted = 0  # counts changes
        self._known = -1  # up to which the slow ones are known
        self._busy = False
        self._asked = False  # nobody may look: then nothing is loaded
        self._slow: list[Figure] = []
        self._quick: list[Figure] = []

    @property
    def shown(self) -> list[Figure]:
        """The figures now; `counting…` stands for those that are being found."""
        slow = self._slow
        if self._known != self._wanted and self._quick and not self._in_the_way():
            slow = [Figure(name="model", text="counting…")]
        return [*self._quick, *slow]

    def changed(self) -> None:
        """Find the quick figures again, and the slow ones soon."""
        with self._guard:
            self._wanted += 1
            self._guard.notify_all()
        self._quick = []
        if self._recipe.has_config:
            found = quick_readouts(self._recipe.config, self._recipe.root)
            self._quick = [_figure(one) for one in found]
        if self._asked:
            self.ask()

    def ask(self) -> None:
        """Find the slow figures, unless they are known: somebody is looking."""
        with self._guard:
            self._asked = True
            idle = not self._busy and self._known != self._wanted
            if not idle or not self._quick or self._in_the_way():
                return
            self._busy = True
        threads.start(self._find, name="theseus figures")

    def _in_the_way(self) -> bool:
        return any("key" in one for one in self._quick)

    def _find(self) -> None:
        while True:
            with self._guard:
                while self._guard.wait(PAUSE):  # more is being typed
                    pass
                wanted = self._wanted
            found = _slow(self._recipe)
            with self._guard:
                self._slow = [_figure(one) for one in found]
                self._known = wanted
                again = self._wanted != wanted
                self._busy = again
            if not again:
                self._told()
                return


def _slow(recipe: QuickJob) -> list[Readout]:
    try:
        return model_readouts(recipe.create(), recipe.spec())
    except UserError as error:
        return [told_problem(error)]
    except Exception as error:  # noqa: BLE001 - a user's model may raise anything; it is shown
        return [Readout("model", f"no figures: {type(error).__name__}: {error}", key="?")]


def _figure(one: Readout) -> Figure:
    found = Figure(name=one.name, text=one.text)
    if one.note:
        found["note"] = one.note
    if one.key:
        found["key"] = one.key
    return found
