"""Write the batch script of a run: a pure function of what it needs.

The script is for people too: it lies in the run's folder, holds no secret, and every value in it
is quoted, be it a directive's or the shell's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib.resources import files

from theseus.dispatch.providers.base import LaunchError

# Long enough to save a large model; a short run gives a quarter of its time.
_MOST_NOTICE = 300
_USUAL_NOTICE = 120


def job_script(
    *,
    run_id: str,
    attempt: int,
    job_name: str,
    tag: str,
    folder: str,
    work: str,
    log: str,
    command: Sequence[str],
    nodes: int,
    partition: str | None = None,
    gres: str | None = None,
    cpus: int | None = None,
    memory_mib: int | None = None,
    account: str | None = None,
    qos: str | None = None,
    time: str | None = None,
    exclude: str | None = None,
    constraint: str | None = None,
    extra: Sequence[str] = (),
) -> str:
    """Return the text of the script; what is None is left to the cluster.

    Parameters
    ----------
    tag
        Finds the job again when the answer to its submission was lost.
    time
        As SLURM reads it: minutes, `h:m:s`, `days-hours`.
    extra
        Further options as they would be given to sbatch: `--reservation=x`.

    Raises
    ------
    LaunchError
        When a value cannot be written in a script.
    """
    directives = [
        ("job-name", job_name),
        ("comment", tag),
        ("output", _file_pattern(f"{log}/slurm.log")),
        ("open-mode", "append"),
        ("signal", f"B:USR1@{_notice(time)}"),
        ("requeue", ""),
        ("nodes", str(nodes)),
        ("ntasks-per-node", "1"),
        ("cpus-per-task", str(cpus) if cpus else None),
        ("mem", f"{memory_mib}M" if memory_mib is not None else None),
        ("gres", gres),
        ("partition", partition),
        ("account", account),
        ("qos", qos),
        ("time", time),
        ("exclude", exclude),
        ("constraint", constraint),
    ]
    header = [_directive(name, value) for name, value in directives if value is not None]
    header += [f"#SBATCH {_one_line('extra', option)}" for option in extra]
    values = {
        "run": run_id,
        "attempt": str(attempt),
        "folder": folder,
        "work": work,
        "log": log,
        "nodes": str(nodes),
        "cpus": str(cpus or ""),
        "gres": gres or "",
    }
    settings = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    body = files("theseus.dispatch.providers").joinpath("sh/slurm_job.sh").read_text("utf-8")
    words = " ".join(map(shlex.quote, command))
    return "\n".join(["#!/bin/sh", *header, "", *settings, f"set -- {words}", "", body])


def safe_job_name(name: str, run_id: str, attempt: int) -> str:
    """Return a name that every SLURM tool takes as one word and that no other run has."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60]
    return "-".join(filter(None, [readable, run_id, str(attempt)]))


def _directive(name: str, value: str) -> str:
    if not value:
        return f"#SBATCH --{name}"
    value = _one_line(name, value)
    plain = re.fullmatch(r"[\w@%+:,./\[\]-]+", value, re.ASCII)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f"#SBATCH --{name}={value}" if plain else f'#SBATCH --{name}="{escaped}"'


def _one_line(name: str, value: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        msg = f"SLURM option {name}: {value!r} holds a line break or another control character"
        raise LaunchError(msg)
    return value


def _file_pattern(path: str) -> str:
    # In a file name `%j` stands for the job's number. A `\` anywhere switches that off, and is
    # taken away itself.
    return path.replace("\\", "\\\\") if "\\" in path else path.replace("%", "%%")


def _notice(time: str | None) -> int:
    """Return how many seconds before the time limit the run is told."""
    limit = _seconds(time)
    return _USUAL_NOTICE if limit is None else max(min(_MOST_NOTICE, limit // 4), 1)


def _seconds(time: str | None) -> int | None:
    """Return a SLURM time in seconds; None for `UNLIMITED` and what cannot be read."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time or "", re.ASCII)
    if found is None:
        return None
    days, first, second, third = (int(part) if part else 0 for part in found.groups())
    if found[1]:
        return ((days * 24 + first) * 60 + second) * 60 + third
    if found[4]:
        return (first * 60 + second) * 60 + third
    return first * 60 + second
