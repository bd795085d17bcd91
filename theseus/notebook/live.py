"""A run while it works, in the cell that started it: one output, updated in place.

The output is a plain display with an identity, not a widget: it needs no front-end code, stays in
the saved notebook as it was last, and can be updated from any thread. Nothing is ever cleared.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from theseus.job import Number
from theseus.notebook import plots
from theseus.runs import Run, words
from theseus.runs.card import card
from theseus.runs.summary import Summary
from theseus.runs.watching import Opening, note_of

INTERVAL = 1.0  # seconds between two updates of the output, at least
_SHARE = 0.1  # of the time, at most, goes into drawing the curve
_FIRST = 0.1  # the first drawing, in seconds: what it really takes is mostly loading matplotlib

Bundle = dict[str, Any]
Show = Callable[[Bundle, Bundle, str, bool], None]

AGAIN = "Run this cell again"


class LiveView:
    """Shows a run in a notebook (a `theseus.runs.watching.Watcher`).

    Parameters
    ----------
    show
        Displays a bundle under an identity, or updates it; None takes the notebook's own.
    """

    def __init__(self, show: Show | None = None) -> None:
        self._show = show or _show
        self._identity = uuid.uuid4().hex
        self._losses = plots.Losses()
        self._note = ""
        self._shown_at = 0.0
        self._curve_is_new = self._picture_is_new = False
        self._picture, self._png = "", b""
        self._next_picture = 0.0

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
        if now - self._shown_at < INTERVAL:
            return
        if summary is not self._summary or self._picture_is_new:
            self._summary = summary
            self._display(update=True)
        # After the facts, which must not wait: the first time, this loads matplotlib.
        if self._curve_is_new and now >= self._next_picture:
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
        self._png = b""
        if not self._losses:
            return
        began = time.thread_time()
        progress = self._summary.progress
        steps = progress is not None and progress.unit.startswith("step")
        until = int(progress.total) if progress is not None and steps and progress.total else None
        self._png = plots.loss_png(self._losses, until=until)
        self._picture = plots.image_html(self._png, plots.sparkline(self._losses))
        self._picture_is_new = True
        cost = time.thread_time() - began if self._next_picture else _FIRST
        self._next_picture = time.monotonic() + cost / _SHARE

    def _display(self, *, update: bool, last: bool = False) -> None:
        html = card(self._summary, note=self._note, picture=self._picture)
        lines = [self._summary.text()]
        if self._note:
            lines.append(words.one_line(self._note))
        if self._losses:
            lines.append(plots.sparkline(self._losses))
        bundle: Bundle = {"text/plain": "\n".join(lines), "text/html": plots.dark_style() + html}
        if last and self._png:
            # For readers of the saved notebook that take pictures but no HTML.
            bundle["image/png"] = base64.b64encode(self._png).decode("ascii")
        self._show(bundle, {"image/png": plots.SIZE} if last else {}, self._identity, update)
        self._shown_at = time.monotonic()
        self._picture_is_new = False


def _show(bundle: Bundle, metadata: Bundle, identity: str, update: bool) -> None:
    from IPython.display import display

    display(  # type: ignore[no-untyped-call]
        bundle, metadata=metadata, raw=True, display_id=identity, update=update
    )
