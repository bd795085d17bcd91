"""A few labelled facts as text and as static HTML: how a recipe shows itself."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from theseus.runs.words import clipped, one_line

_WIDEST = 72

# JupyterLab's own colours where they exist; elsewhere the text colour of the page.
_TABLE = "border-collapse:collapse;font-size:var(--jp-code-font-size,13px);margin:.3em 0"
_LABEL = (
    "text-align:left;vertical-align:top;font-weight:normal;padding:.1em 1.2em .1em 0;"
    "color:var(--jp-ui-font-color2,inherit)"
)
_CELL = (
    "text-align:left;vertical-align:top;padding:.1em 1.2em .1em 0;"
    "font-family:var(--jp-code-font-family,monospace)"
)


@dataclass(frozen=True)
class Card:
    """A title and rows of text; each row is a label and one or more columns."""

    title: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, label: str, *columns: str) -> None:
        """Add a row, unless it would say nothing."""
        if any(columns):
            self.rows.append((label, *columns))

    def text(self) -> str:
        """Return the plain form, in aligned columns."""
        rows = [[one_line(part) for part in row] for row in self.rows]
        lines = ["  ".join(one_line(part) for part in self.title)]
        return "\n".join([*lines, *(f"  {line}" for line in aligned(rows))])

    def html(self) -> str:
        """Return the static HTML form: everything escaped, no script, no link."""
        head, *rest = (html.escape(one_line(part)) for part in self.title)
        title = " · ".join([f"<strong>{head}</strong>", *rest])
        body = "".join(
            f'<tr><th scope="row" style="{_LABEL}">{html.escape(one_line(label))}</th>'
            + "".join(f'<td style="{_CELL}">{html.escape(one_line(c))}</td>' for c in columns)
            + "</tr>"
            for label, *columns in self.rows
        )
        return f'<div class="theseus-card">{title}<table style="{_TABLE}">{body}</table></div>'


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows of text as lines whose columns start at the same place."""
    table = [list(row) for row in rows]
    count = max((len(row) for row in table), default=0)
    widths = [
        max((len(row[i]) for row in table if len(row) > i + 1), default=0) for i in range(count)
    ]
    return [
        "  ".join(part.ljust(width) for part, width in zip(row, widths, strict=False)).rstrip()
        for row in table
    ]


def value_text(value: Any) -> str:
    """Return a configuration value as a person would type it into YAML, cut when it is long."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    return clipped(one_line(str(getattr(value, "name", value))), _WIDEST) or '""'


def size_text(count: int) -> str:
    """Return a number of bytes in the largest fitting unit: `64 GiB`."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:.4g} {unit}"
    return f"{count} B"
