"""How a run ended, from what its first process wrote down: the same file on every host."""

from __future__ import annotations

import time
from collections.abc import Mapping

from theseus.dispatch.providers.base import Seen

_WORDS = {
    72: "the folder of its code cannot be entered",
    126: "its command cannot be executed",
    127: "its command was not found",
    137: "killed (signal 9), perhaps for its use of memory",
    143: "ended by signal 15",
}


def exit_text(status: int) -> str:
    """Return an exit status in words."""
    if status in _WORDS:
        return _WORDS[status]
    return f"ended by signal {status - 128}" if 128 < status < 192 else f"exit status {status}"


def seen_by_exit(values: Mapping[str, str], *, cancelled: bool) -> Seen | None:
    """Return what an `exit` file says, or None when it does not say."""
    status = values.get("status", "")
    if not (status.isascii() and status.isdecimal()):
        return None
    if int(status) == 0:
        return Seen("finished", None, None, time.time())
    return Seen("cancelled" if cancelled else "failed", exit_text(int(status)), None, time.time())
