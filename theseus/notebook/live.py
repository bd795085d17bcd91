"""A run while it works, in the cell that started it: one output, updated in place.

The output is a plain display with an identity, not a widget: it needs no front-end code, stays in
the saved notebook as it was last, and can be updated from any thread. Nothing is ever cleared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from theseus.job import Number
from theseus.notebook import plots
from theseus.notebook.record import Record, Show, until_of
from theseus.runs import Run, words
from theseus.runs.summary import Summary
from theseus.runs.watching import Opening, note_of

INTERVAL = 1.0  # seconds between two updates of the output, at least

AGAIN = "Run this cell again"


class LiveView:
    """Shows a run in a notebook (a `theseus.runs.watching.Watcher`).

    Parameters
    ----------
    show
        Displays a bundle under an identity, or updates it; None takes the notebook's own.
    """

    def __init__(self, show: Show | None = None) -> None:
        self._record = Record(show)
        self._losses = plots.Losses()
        self._note = ""
        self._curve_is_new = False

    def started(self, run: Run, opening: Opening) -> None:
        """Show the card at once."""
        self._summary = run.summary()
        self._losses = plots.Losses.of(run.metrics())
        self._finished_before = opening.finished
        if not opening.finished:
            self._display(update=False)

    def report(self, step: int, tokens: int, values: Mapping[str, Number]) -> None:
        """Take in one line of metrics."""
        self._curve_is_new |= self._losses.add(step, values)

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Take in an event; some of them are told as a note."""
        self._note = note_of(kind, facts) or self._note
        if kind == "resumed" and facts.get("step") is not None:
            self._losses.forget_after(facts["step"])
            self._curve_is_new = True

    def update(self, summary: Summary) -> None:
        """Update the output, when something is new and the last time is long enough ago."""
        now = time.monotonic()
        if now - self._record.shown_at < INTERVAL:
            return
        if summary is not self._summary or self._record.picture_is_new:
            self._summary = summary
            self._display(update=True)
        # After the facts, which must not wait: the first time, this loads matplotlib.
        if self._curve_is_new and self._record.may_draw():
            self._draw()

    def ended(self, run: Run) -> None:
        """Show how it ended; always, whatever was shown a moment ago."""
        self._summary = run.summary()
        self._losses = plots.Losses.of(run.metrics())
        self._note = self._last_note()
        self._draw()
        self._display(update=not self._finished_before, last=True)

    def _last_note(self) -> str:
        summary = self._summary
        if self._finished_before:
            when = f" on {words.moment(summary.since)}" if summary.since else ""
            return f"Already finished{when}. `job(fresh=True)` starts a new one."
        if summary.state != "finished":
            return summary.next_step(AGAIN)
        return ""

    def _draw(self) -> None:
        self._curve_is_new = False
        self._record.draw(self._losses, until_of(self._summary))

    def _display(self, *, update: bool, last: bool = False) -> None:
        # The picture is for readers of the saved notebook that take pictures but no HTML.
        self._record.display(
            self._summary, self._losses, note=self._note, picture=last, update=update
        )
