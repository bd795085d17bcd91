"""How a magic shows what went wrong: a mistake at its place, and a fault of ours with its details.

A mistake is one block of text: what, the line of the cell, a caret below the word. A fault says so,
and keeps its traceback behind "show details".
"""

from __future__ import annotations

import html
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from theseus._words import split
from theseus.errors import UserError

_QUOTED = re.compile(r"'([^'\n]+)'|(?<![\w'-])(--?[A-Za-z][\w-]*)")


class Fault(UserError):
    """Something went wrong in theseus itself."""


@dataclass(frozen=True)
class Written:
    """A line as it stands in its cell.

    Attributes
    ----------
    text
        The whole line.
    start
        Where the words after the name of the magic begin.
    number
        Which line of the cell it is, from 1; None when that is not known.
    """

    text: str
    start: int
    number: int | None
    magic: str = "%theseus"

    @classmethod
    def of(cls, magic: str, line: str, cell: str) -> Written:
        """Return the line `magic line` as it stands in the text of a cell."""
        text = f"{magic} {line}".rstrip()
        found = [
            (number, shown)
            for number, shown in enumerate(cell.split("\n"), start=1)
            if shown.rstrip().endswith(text)
        ]
        number, shown = found[0] if len(found) == 1 else (None, text)
        return cls(shown.rstrip(), shown.rfind(text) + len(magic) + 1, number, magic)


def located(message: str, written: Written) -> str:
    """Return a message with the line that it is about and a caret below the word that it names.

    Where the message names no word of the line, it stays as it is; one about something that is
    missing points to the end.
    """
    found = place(message, written.text[written.start :])
    if message.startswith(f"'{written.magic}' "):
        found = -1 - len(written.magic), -1
    if found is None:
        return message
    begin, end = (written.start + found[0], written.start + found[1])
    first, *rest = message.split("\n")
    head = f"line {written.number}: {first}" if written.number else first
    caret = " " * begin + "^" * max(end - begin, 1)
    return "\n".join([head, f"    {written.text}", f"    {caret}", *rest])


def place(message: str, line: str) -> tuple[int, int] | None:
    """Return where in a line the word stands that a message names; None where it names none."""
    words = split(line)
    first = message.split("\n", maxsplit=1)[0]
    for found in _QUOTED.finditer(first):
        named = found[1] or found[2]
        for word in words:
            name, equals, value = word.text.partition("=")
            if named in (word.text, name if equals else "", value if equals else ""):
                return word.start, word.end
    if words and words[-1].open_quote:
        return words[-1].start, words[-1].start + 1
    return (len(line), len(line)) if first.startswith("Missing ") else None


def plain(error: UserError, message: str | None = None) -> UserError:
    """Let IPython show the message alone: the line it came from is the one just typed."""
    told = f"{type(error).__name__}: {error if message is None else message}"
    error._render_traceback_ = lambda: [told]  # type: ignore[method-assign]
    return error


@contextmanager
def shown(written: Written | None = None, *, faults: bool = True) -> Iterator[None]:
    """Let what goes wrong inside be shown as a mistake of the user or a fault of ours.

    Parameters
    ----------
    written
        The line that was typed; None when nothing is to be pointed at.
    faults
        Whether what is no `UserError` is a fault of ours. Otherwise it passes as it is: the user's
        own code runs here.
    """
    try:
        yield
    except UserError as error:
        message = str(error) if written is None else located(str(error), written)
        raise plain(error, message) from None
    except Exception as error:
        if not faults or type(error).__module__.startswith("IPython."):
            raise
        _display(details(error))
        msg = (
            f"{type(error).__name__}: {error}\n"
            "this is a mistake in theseus, not in what you wrote; the details are above, "
            "and `%theseus doctor` says what is installed"
        )
        raise plain(Fault(msg)) from error


def details(error: BaseException) -> dict[str, str]:
    """Return the traceback of an error: folded in a notebook, below a line of its own elsewhere."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return {
        "text/plain": f"details of {type(error).__name__}:\n{text}",
        "text/html": (
            '<details class="jp-theseus-details"><summary>show details</summary>'
            f'<pre style="white-space:pre-wrap">{html.escape(text)}</pre></details>'
        ),
    }


def _display(bundle: dict[str, str]) -> None:
    from IPython.display import display

    plainly: Any = display  # IPython leaves it without types
    plainly(bundle, raw=True)
