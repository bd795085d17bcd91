"""Threads of the notebook's parts: each works under the cell or the callback that started it.

A kernel notes in a context variable which cell it works for, and a plain thread has none: in
ipykernel 7.0 nothing can be sent to the page from one, and later versions put what it shows under
the cell that runs by then (https://github.com/ipython/ipykernel/issues/1289).
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

# The context of the newest cell, for threads that the user has started.
_newest: contextvars.Context | None = None


def start(work: Callable[..., object], *arguments: Any, name: str) -> threading.Thread:
    """Start a daemon thread that belongs to the cell that runs now."""
    run = contextvars.copy_context().run
    thread = threading.Thread(target=run, args=(work, *arguments), name=name, daemon=True)
    thread.start()
    return thread


def remember_cell(*_: Any) -> None:
    """Note that a cell begins; a hook of IPython's `pre_run_cell`."""
    global _newest
    _newest = contextvars.copy_context()


def under_a_cell(show: Callable[..., object], *arguments: Any, **options: Any) -> None:
    """Call what sends something to the page: from any thread, also one that knows of no cell."""
    try:
        show(*arguments, **options)
    except LookupError as error:
        if type(error) is not LookupError or _newest is None:  # a KeyError is one as well
            raise
        _newest.copy().run(show, *arguments, **options)
