"""Which process runs a run, and whether that very process still lives."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def host_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def this_process() -> dict[str, Any]:
    """Return what tells this process from every other: host, boot, pid, and when it started.

    A pid alone is used again after a while, and by another machine that shares the folder.
    """
    pid = os.getpid()
    return {"pid": pid, "started": _started(pid), "host": host_name(), "boot": _boot()}


def visible_gpus() -> list[str]:
    """Return the GPUs that this process was given, where somebody gave it some."""
    return [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]


def is_this_host(process: Mapping[str, Any]) -> bool:
    """Return whether a recorded process belongs to this machine."""
    return process.get("host") == host_name()


def is_alive(process: Mapping[str, Any]) -> bool:
    """Return whether a recorded process of this machine still runs."""
    pid = process.get("pid")
    if not isinstance(pid, int) or pid <= 0 or process.get("boot") != _boot():
        return False
    started = _started(pid)
    return started is not None and started == process.get("started")


_PROC = Path("/proc/self/stat")  # Linux has it; macOS is asked with `ps`


@cache
def _boot() -> str:
    """Return what changes when the machine starts anew, or an empty text when nothing says so."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return a text that is the same as long as the process lives; None when there is none."""
    if _PROC.exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return None
        # The second field is the program's name in parentheses, which may hold anything.
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in {"Z", "X"} else fields[19]
    try:
        shown = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip() or None
