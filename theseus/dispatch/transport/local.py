"""The machine that we are on, reached without a network: the same programs, in a `/bin/sh` of our own."""

from __future__ import annotations

from pathlib import Path

from theseus.dispatch.transport.framing import COMMAND
from theseus.dispatch.transport.process import ChildProcess, Process


class LocalConnection:
    """Carries programs to a shell on this machine."""

    alive = True

    def __init__(self, timeout: float = 0.0) -> None:
        """Take the time that opening may take, as every opener does; none is needed here."""

    def start(self, timeout: float) -> Process:
        """Start a `/bin/sh` that reads its input, in the home folder as over SSH."""
        return ChildProcess(COMMAND, folder=home())

    def close(self) -> None:
        """Do nothing: every program has a process of its own."""


def home() -> str | None:
    """Return the folder in which commands begin over SSH, if there is one."""
    try:
        folder = Path.home()
    except RuntimeError:
        return None
    return str(folder) if folder.is_dir() else None
