"""The one base class of mistakes that a user can mend."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable
from types import TracebackType

# The exit status of a process whose job was stopped, had saved its state and can go on from there
# (EX_TEMPFAIL of sysexits.h: "try again later").
STOPPED = 75


class UserError(Exception):
    """A mistake that the user can mend; its message says what, where and how.

    Notebooks and terminals show the message alone: a traceback through our code would not help.
    IPython asks an exception for `_render_traceback_` before it formats one itself, so this works
    in every notebook, with or without `%load_ext theseus`.
    """

    def _render_traceback_(self) -> list[str]:
        where = _user_line(self.__traceback__)
        return [f"{type(self).__name__}: {self}", *([where] if where else [])]


def not_installed(what: str, package: str) -> UserError:
    """Return the error for something that a plain installation comes without."""
    return UserError(f"{what} needs the package '{package}': pip install 'theseus-jupyter[run]'")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like `word`, or None when none is close."""
    known = list(known)
    by_folded = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `", did you mean 'x'?"` for the nearest known word, or an empty string."""
    found = nearest(word, known)
    return f", did you mean '{found}'?" if found else ""


def _user_line(traceback: TracebackType | None) -> str:
    """Return the innermost line of the traceback that belongs to a notebook cell or a script."""
    place = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module == "__main__":
            line = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            place = f"  line {traceback.tb_lineno}: {line}" if line else ""
        traceback = traceback.tb_next
    return place
