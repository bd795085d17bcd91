"""A run while it works, in a terminal: one line that moves, or plain lines now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from theseus.job import Number
from theseus.runs import Run, words
from theseus.runs.summary import SHAPES, Fact, Summary
from theseus.runs.watching import CHOICE, Opening, note_of

AGAIN = "Run the same command again"

_STYLES = {"finished": "green", "failed": "red", "cancelled": "yellow", "lost": "red"}
_FIRST, _LATER, _EARLY = 5.0, 30.0, 120.0  # seconds between plain lines: at first, and later on


class TerminalView:
    """Shows a run in a terminal (a `theseus.runs.watching.Watcher`).

    On a terminal, one line is drawn again and again below what the job prints. Elsewhere (a file, a
    pipe, a CI log) there is a plain line every few seconds. Both go to the error stream, so that
    what the job prints can be piped on alone.

    Parameters
    ----------
    stream
        Where it writes; None takes `sys.stderr`.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(
            file=stream or sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True
        )
        plain = os.environ.get(CHOICE) == "plain"
        self._moves = self._console.is_terminal and not self._console.is_dumb_terminal and not plain
        self._live: Live | None = None
        self._finished_before = False
        self._shown: Summary | None = None
        self._began = self._shown_at = time.monotonic()

    def started(self, run: Run, opening: Opening) -> None:
        """Begin with where the records go."""
        self._finished_before = opening.finished
        if opening.finished:
            return
        summary = run.summary()
        attempt = f", attempt {opening.attempt}" if opening.attempt > 1 else ""
        folder = words.shown_path(run.folder)
        self._say(Text(f"{_title(summary)}  running{attempt} in {folder}"))
        if self._moves:
            self._live = Live(
                Line(summary),
                console=self._console,
                auto_refresh=False,
                transient=True,
                # Prints of the job go above the line. When they go to a file, they stay there.
                redirect_stdout=_is_terminal(sys.stdout),
                redirect_stderr=_is_terminal(sys.stderr),
            )
            self._live.start()

    def report(self, step: int, tokens: int, values: Mapping[str, Number]) -> None:
        """Nothing: the summary has the newest values."""

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Say in a line what the user should know of."""
        note = note_of(kind, facts)
        if note:
            self._say(Text(words.one_line(note), style="yellow"))

    def update(self, summary: Summary) -> None:
        """Draw the line anew when something has changed, or add one when it is time to."""
        if summary is self._shown:
            return
        if self._live is not None:
            self._live.update(Line(summary), refresh=True)
        elif self._is_time() and summary.position:
            self._shown_at = time.monotonic()
            self._say(Text("  ".join([_title(summary), *_parts(summary).values()])))
        else:
            return
        self._shown = summary

    def ended(self, run: Run) -> None:
        """Leave the facts that stay interesting: how it ended, where it is, how to go on."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        summary = run.summary()
        style = _STYLES.get(summary.state, "")
        lines = summary.text().split("\n")
        self._say(Text(f"{SHAPES.get(summary.state, '•')} {lines[0]}", style=style))
        for line in lines[1:]:
            self._say(Text(f"  {line}"))
        if self._finished_before:
            when = f" on {words.moment(summary.since)}" if summary.since else ""
            self._say(
                Text(
                    f"  already finished{when}; `job(fresh=True)` or `theseus run --fresh` starts a new one"
                )
            )
        elif summary.state != "finished":
            self._say(Text(f"  log     {words.shown_path(run.log_path)}"))
            self._say(Text(f"  {summary.next_step(AGAIN)}"))

    def _is_time(self) -> bool:
        now = time.monotonic()
        return now - self._shown_at >= (_FIRST if now - self._began < _EARLY else _LATER)

    def _say(self, text: Text) -> None:
        self._console.print(text)


class Line:
    """The progress line: as many facts as fit into the width there is."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text(options.max_width)

    def text(self, width: int) -> Text:
        """Return the line, no wider than `width`."""
        summary = self._summary
        name = words.clipped(words.one_line(summary.name), max(width // 4, 8))
        parts = _parts(summary) or {"": "starting"}
        fraction = None if summary.progress is None else summary.progress.fraction
        bar = 0 if fraction is None else min(max(width // 6, 6), 24)
        while _width([name, "─" * bar, *parts.values()]) > width:
            optional = [part for part in parts if part in _OPTIONAL]
            others = [part for part in parts if part not in _ALWAYS and part not in _OPTIONAL]
            if others or optional[1:]:
                del parts[others[-1] if others else max(optional, key=_OPTIONAL.index)]
            elif bar:
                bar = 0
            elif optional:
                del parts[optional[0]]
            else:
                break
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(name, style="bold")
        if bar and fraction is not None:
            full = round(fraction * bar)
            line.append("  ")
            line.append("━" * full, style="cyan")
            line.append("─" * (bar - full), style="dim")
        for part in parts.values():
            line.append("  ")
            line.append(part)
        line.truncate(width, overflow="ellipsis")
        return line


# What a narrow line leaves out, the last first; facts that have no place here go before all.
_ALWAYS = ("", "position", "loss")
_OPTIONAL = ("remaining", "val loss", "speed", "lr")


def _parts(summary: Summary) -> dict[str, str]:
    """Return the position, the facts and the time left, as a line shows them."""
    parts = {"position": summary.position}
    parts |= {fact.label: _short(fact) for fact in summary.facts()}
    parts["remaining"] = summary.remaining
    return {label: part for label, part in parts.items() if part}


def _short(fact: Fact) -> str:
    if fact.label == "speed":
        return fact.value
    return f"{'val' if fact.label == 'val loss' else fact.label} {fact.value}"


def _width(parts: list[str]) -> int:
    return sum(cell_len(part) for part in parts if part) + 2 * (sum(map(bool, parts)) - 1)


def _title(summary: Summary) -> str:
    return f"{words.one_line(summary.name)} {summary.id}"


def _is_terminal(stream: Any) -> bool:
    return bool(stream is not None and stream.isatty())
