"""The durable form of a run in a notebook: one plain output, updated in place.

Not a widget: it needs no front-end code, stays in the saved notebook as it was last, and can be
updated from any thread. Nothing is ever cleared. It holds text, HTML, a picture and the facts as
`application/vnd.theseus.run+json`, each bounded, so that a saved notebook stays small.
"""

from __future__ import annotations

import base64
import math
import time
import uuid
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from theseus.notebook import plots, threads
from theseus.runs import words
from theseus.runs.card import card
from theseus.runs.summary import Summary

MIME = "application/vnd.theseus.run+json"
_SHARE = 0.1  # of the time, at most, goes into drawing the curve
_FIRST = 0.1  # the first drawing, in seconds: what it really takes is mostly loading matplotlib
SAVED = (
    "id", "name", "project", "group", "job", "host", "chips", "state", "reason", "elapsed",
    "progress", "facts", "folder", "ended",
)  # fmt: skip
_SAVED_POINTS = 200  # of each curve in the facts

Bundle = dict[str, Any]
Show = Callable[[Bundle, Bundle, str, bool], None]


class Record:
    """One output that shows a run.

    Parameters
    ----------
    show
        Displays a bundle under an identity, or updates it; None takes the notebook's own.
    """

    def __init__(self, show: Show | None = None) -> None:
        self._show = show or _show
        self._identity = uuid.uuid4().hex
        self._picture, self._png = "", b""
        self._next_picture = 0.0
        self.shown_at = 0.0
        self.picture_is_new = False

    def may_draw(self) -> bool:
        """Return whether the curve may be drawn again already."""
        return time.monotonic() >= self._next_picture

    def draw(self, losses: plots.Losses, until: int | None) -> None:
        """Draw the curve, to be shown by the next `display`."""
        self._png = b""
        if not losses:
            return
        began = time.thread_time()
        self._png = plots.loss_png(losses, until=until)
        self._picture = plots.image_html(self._png, plots.sparkline(losses))
        self.picture_is_new = True
        cost = time.thread_time() - began if self._next_picture else _FIRST
        self._next_picture = time.monotonic() + cost / _SHARE

    def display(
        self,
        summary: Summary,
        losses: plots.Losses,
        *,
        note: str = "",
        tail: str = "",
        facts: Mapping[str, Any] | None = None,
        picture: bool = False,
        update: bool,
    ) -> None:
        """Show the output, or update it.

        Parameters
        ----------
        note
            What the user should know or do next, as plain text with `code` in it.
        tail
            The end of the log, as plain text.
        facts
            The facts for programs; they come with the points of the curves.
        picture
            Whether the picture goes beside the HTML too, for readers that take no HTML.
        """
        html = card(summary, note=note, picture=self._picture)
        lines = [summary.text()]
        if note:
            lines.append(words.one_line(note))
        if losses:
            lines.append(plots.sparkline(losses))
        if tail:
            html += _log_html(tail)
            lines += ["", tail]
        bundle: Bundle = {"text/plain": "\n".join(lines), "text/html": plots.dark_style() + html}
        if facts is not None:
            bundle["text/html"] = f'<div class="theseus-record">{bundle["text/html"]}</div>'
            bundle[MIME] = saved(facts, losses)
        if picture and self._png:
            bundle["image/png"] = base64.b64encode(self._png).decode("ascii")
        self._show(bundle, {"image/png": plots.SIZE} if picture else {}, self._identity, update)
        self.shown_at = time.monotonic()
        self.picture_is_new = False

    def reserve(self) -> None:
        """Put the output where it will stay, before there is a run to show."""
        empty = {"text/plain": "", "text/html": '<div class="theseus-record"></div>'}
        self._show(empty, {}, self._identity, False)


def until_of(summary: Summary) -> int | None:
    """Return the last step of a run, where that is known."""
    progress = summary.progress
    steps = progress is not None and progress.unit.startswith("step")
    return int(progress.total) if progress is not None and steps and progress.total else None


def saved(facts: Mapping[str, Any], losses: plots.Losses) -> dict[str, Any]:
    """Return the record of a run for programs: what of its facts lasts, and its curves."""
    kept = {key: facts[key] for key in SAVED}
    return {"v": 1, **kept, "curves": saved_curves(losses)}


def saved_curves(losses: plots.Losses) -> dict[str, list[list[float | None]]]:
    """Return the curves as few pairs of step and value; None where it was no finite number."""
    found: dict[str, list[list[float | None]]] = {}
    for name, series in (("train", losses.train), ("validation", losses.validation)):
        steps, values = plots.decimated(series.steps, series.values, _SAVED_POINTS)
        found[name] = [
            [step, float(f"{value:.6g}") if math.isfinite(value) else None]
            for step, value in zip(steps, values, strict=True)
        ]
    return found


def _log_html(tail: str) -> str:
    return (
        '<details style="max-width:640px"><summary style="color:var(--jp-ui-font-color2, #757575)">'
        "the end of the log</summary>"
        '<pre style="margin:4px 0;max-height:260px;overflow:auto;font-size:12px;white-space:pre">'
        f"{escape(tail)}</pre></details>"
    )


def _show(bundle: Bundle, metadata: Bundle, identity: str, update: bool) -> None:
    from IPython.display import display

    threads.under_a_cell(
        display, bundle, metadata=metadata, raw=True, display_id=identity, update=update
    )
