"""The card of a run: its facts as static HTML, in the notebook's own type and colours.

Inline styles only, so that it stays readable where style sheets are stripped (code hosts, an
untrusted notebook) and needs nothing from the network. All text is escaped.
"""

from __future__ import annotations

import re
from html import escape

from theseus.runs import words
from theseus.runs.summary import SHAPES, Summary

_TEXT = "var(--jp-ui-font-color1, currentColor)"
_QUIET = "var(--jp-ui-font-color2, #757575)"
_LINE = "var(--jp-border-color2, #bdbdbd)"
_TRACK = "var(--jp-border-color2, #d5d5d5)"
_ACCENT = "var(--jp-brand-color1, #1976d2)"
_MONO = "font-family:var(--jp-code-font-family, monospace)"

_CODE = re.compile(r"`([^`]+)`")

_COLOURS = {
    "running": _ACCENT,
    "finished": "var(--jp-success-color1, #388e3c)",
    "failed": "var(--jp-error-color1, #d32f2f)",
    "lost": "var(--jp-error-color1, #d32f2f)",
    "cancelled": "var(--jp-warn-color1, #b26a00)",
}


def card(summary: Summary, *, note: str = "", picture: str = "") -> str:
    """Return the card as one HTML element.

    Parameters
    ----------
    summary
        The facts.
    note
        What the user should know or do next, as plain text with `code` in it.
    picture
        HTML that goes below the facts, such as the loss curve.
    """
    parts = [_head(summary), _error(summary), _bar(summary), _facts(summary), picture]
    parts += [_note(note), _foot(summary)]
    return (
        '<div class="theseus-run" style="max-width:640px;padding:6px 0;line-height:1.5;'
        f"color:{_TEXT};font-family:var(--jp-ui-font-family, sans-serif);"
        'font-size:var(--jp-ui-font-size1, 13px)">' + "".join(parts) + "</div>"
    )


def _head(summary: Summary) -> str:
    colour = _COLOURS.get(summary.state, _QUIET)
    shape = SHAPES.get(summary.state, "•")
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline">'
        f'<strong style="overflow-wrap:anywhere">{_escaped(summary.name)}</strong> '
        f'<span style="{_MONO};color:{_QUIET}">{_escaped(summary.id)}</span> '
        f'<span style="white-space:nowrap"><span style="color:{colour}">{shape}</span> '
        f"{_escaped(summary.headline)}</span> "
        f'<span style="color:{_QUIET}">{_escaped(summary.host)}</span></div>'
    )


def _error(summary: Summary) -> str:
    if summary.state not in {"failed", "lost"} or not summary.reason:
        return ""
    text = escape(words.clipped(summary.reason, 2000))
    return (
        f'<div style="margin:4px 0;padding:4px 8px;border-left:3px solid {_COLOURS["failed"]};'
        f'{_MONO};font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere">{text}</div>'
    )


def _bar(summary: Summary) -> str:
    progress = summary.progress
    if progress is None:
        return ""
    bar = ""
    if progress.fraction is not None:
        colour = _COLOURS.get(summary.state, _ACCENT)
        percent = 100 * progress.fraction
        bar = (
            f'<div role="progressbar" aria-valuemin="0" aria-valuemax="100" '
            f'aria-valuenow="{percent:.0f}" aria-label="progress" '
            f'style="height:6px;border-radius:3px;background:{_TRACK};overflow:hidden">'
            f'<div style="height:6px;width:{percent:.1f}%;background:{colour}"></div></div>'
        )
    return (
        f'<div style="margin:4px 0">{bar}'
        '<div style="display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 16px;margin-top:2px;'
        f'color:{_QUIET};font-variant-numeric:tabular-nums">'
        f"<span>{_escaped(summary.position)}</span> <span>{_escaped(summary.remaining)}</span>"
        "</div></div>"
    )


def _facts(summary: Summary) -> str:
    cells = [
        '<div style="min-width:72px">'
        f'<div style="color:{_QUIET};font-size:11px">{_escaped(fact.label)}</div> '
        f'<div style="font-variant-numeric:tabular-nums;white-space:nowrap">{_escaped(fact.value)}'
        + (f' <span style="color:{_QUIET}">{_escaped(fact.detail)}</span>' if fact.detail else "")
        + "</div></div>"
        for fact in summary.facts()
    ]
    if not cells:
        return ""
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:4px 24px;margin:4px 0">'
        + " ".join(cells)
        + "</div>"
    )


def _note(note: str) -> str:
    if not note:
        return ""
    text = _CODE.sub(r"<code>\1</code>", escape(note))
    return (
        f'<div style="margin:4px 0;padding:4px 8px;border-left:3px solid {_LINE};'
        f'overflow-wrap:anywhere">{text}</div>'
    )


def _foot(summary: Summary) -> str:
    folder = escape(words.shown_path(summary.folder))
    return (
        f'<div style="color:{_QUIET};font-size:11px;{_MONO};overflow-wrap:anywhere">{folder}</div>'
    )


def _escaped(text: str) -> str:
    return escape(words.one_line(text))
