"""Which folder an execution of a job belongs to, and whether it may work there now."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from theseus.config import to_plain
from theseus.errors import UserError
from theseus.job import Job, RunIdentity
from theseus.registry import key_of
from theseus.runs import files, names, processes, provenance
from theseus.runs.code import code_digest
from theseus.runs.run import CHECKPOINTS, CONFIG, LOG, RESULTS, RUN, STATUS, Run
from theseus.runs.summary import Progress

# A run on another machine that shares the folder writes a heartbeat every few seconds; file
# servers and their caches may take this long to show it.
_SILENCE = 90.0

_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class RunBusyError(UserError):
    """The same run is being worked on right now."""


@dataclass(frozen=True)
class Claim:
    """A run folder that is this process's to work in.

    Attributes
    ----------
    run
        The run.
    attempt
        Which execution of it this is.
    finished
        It had finished before; nothing is to be done, and nothing was changed.
    elapsed
        How many seconds earlier attempts took.
    status
        What earlier attempts left in `status.json`, if there were any.
    """

    run: Run
    attempt: int
    finished: bool
    elapsed: float
    status: Mapping[str, Any]


_held: set[Path] = set()


def claim(job: Job, *, fresh: bool, folder: Path | None = None, requeued: bool = False) -> Claim:
    """Find or make the folder of this run and mark it as running here.

    Parameters
    ----------
    folder
        The folder that was made for this run when it was submitted; None looks for it.
    requeued
        Whether a scheduler has started the run again, so that the attempt before is over.

    Raises
    ------
    RunBusyError
        When another process, or another thread of this one, is working on the run.
    RecordError
        When the folder cannot be written.
    """
    if folder is not None:
        with _one_at_a_time(folder.parent):
            found = _continue(Run(folder), sure=requeued)
            _take(found)
        return found
    base, config, identity = run_identity(job)
    group = _group_folder(job)
    with files.explained(group):
        group.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(group):
        newest = _newest(group, names.path_part(job.identity.name), base)
        if newest is None or fresh:
            number = 0 if newest is None else newest.record["fresh"] + 1
            run = _make(job, group, base, config, identity, number)
            found = Claim(run, 1, False, 0.0, {})
        else:
            found = _continue(newest)
        _take(found)
    return found


def _take(found: Claim) -> None:
    if not found.finished:
        _mark(found)
        _held.add(found.run.folder)


def _mark(claimed: Claim) -> None:
    """Write the first status of an attempt: running, in this process."""
    now = time.time()
    kept = {name: claimed.status.get(name) for name in ("latest", "best", "checkpoint")}
    progress = Progress.of(claimed.status.get("progress"))
    if progress is not None:  # how fast it was is no estimate of how fast it will be
        kept["progress"] = replace(progress, rate=None, remaining=None).plain()
    files.write_json(
        claimed.run.folder / STATUS,
        {
            "state": "running",
            "since": now,
            "reason": None,
            "exit": None,
            "attempt": claimed.attempt,
            "pids": [processes.this_process()],
            "gpus": processes.visible_gpus(),
            "heartbeat": 0,
            "time": now,
            "elapsed": claimed.elapsed,
            **kept,
        },
    )


def release(claimed: Claim) -> None:
    """Say that this process no longer works in the folder."""
    _held.discard(claimed.run.folder)


def run_identity(job: Job) -> tuple[str, Mapping[str, Any], dict[str, str]]:
    """Return the digest of the run, its configuration as written down, and what named it."""
    raw = to_plain(job.config)
    config = provenance.without_secrets(raw, to_plain(job.config, resolve=True))
    cls = type(job)
    identity = {
        "job": key_of("job", cls) or f"{cls.__module__}:{cls.__qualname__}",
        "code": code_digest(cls, *cls.configs()),
        "name": job.identity.name,
        "project": job.identity.project,
        "group": job.identity.group,
    }
    return names.run_digest(identity, config), config, identity


def group_path(identity: RunIdentity) -> str:
    """Return the folder of a run's group, relative to the root."""
    project = names.path_part(identity.project, empty="general")
    group = names.path_part(identity.group, empty="default")
    return f"runs/{project}/{group}"


def _group_folder(job: Job) -> Path:
    return Path(job.root).expanduser().absolute() / group_path(job.identity)


def _newest(group: Path, part: str, base: str) -> Run | None:
    """Return the latest of the runs that were made for the same thing."""
    found: list[tuple[int, Run]] = []
    for path in group.glob(f"{part}-*/{RUN}"):
        run = Run(path.parent)
        if run.record.get("base") == base:
            found.append((run.record["fresh"], run))
    return max(found, key=lambda item: item[0])[1] if found else None


def _make(
    job: Job,
    group: Path,
    base: str,
    config: Mapping[str, Any],
    identity: Mapping[str, Any],
    number: int,
) -> Run:
    """Make a new run folder; it appears under its name when it is whole."""
    digest = base if number == 0 else names.run_digest(identity, config, fresh=number)
    short = names.run_id(digest)
    folder = group / f"{names.path_part(job.identity.name)}-{short}"
    record = {
        "id": short,
        **identity,
        "created": time.time(),
        "digest": digest,
        "base": base,
        "fresh": number,
        **provenance.environment(type(job)),
    }
    with files.explained(group):
        building = group / f".new-{short}-{os.getpid()}"
        shutil.rmtree(building, ignore_errors=True)  # left by a process with this pid, long ago
        try:
            building.mkdir()
            for part in (LOG.parent, CHECKPOINTS, RESULTS):
                (building / part).mkdir()
            files.write_text(building / CONFIG, OmegaConf.to_yaml(OmegaConf.create(dict(config))))
            files.write_json(building / STATUS, {"state": "preparing", "attempt": 0, "pids": []})
            files.write_json(building / RUN, record)
            building.rename(folder)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    return Run(folder)


def _continue(run: Run, *, sure: bool = False) -> Claim:
    """Return the claim on a run that exists, or refuse it."""
    status = files.read_json(run.folder / STATUS)
    attempt = int(status.get("attempt", 0))
    elapsed = float(status.get("elapsed") or 0.0)
    if status["state"] == "finished":
        return Claim(run, attempt, True, elapsed, status)
    if status["state"] == "running" and not sure:
        _refuse_if_busy(run, status)
    return Claim(run, attempt + 1, False, elapsed, status)


def _refuse_if_busy(run: Run, status: Mapping[str, Any]) -> None:
    for process in status.get("pids") or []:
        pid, host = process.get("pid"), process.get("host")
        if not processes.is_this_host(process):
            age = _age(run.folder / STATUS)
            busy, where = age < _SILENCE, f"process {pid} on {host}, seen {age:.0f} s ago"
        elif process == processes.this_process():
            busy, where = run.folder in _held, f"this process ({pid} on {host})"
        else:
            busy, where = processes.is_alive(process), f"process {pid} on {host}"
        if busy:
            msg = (
                f"'{run.name}' ({run.id}) is already running in {where}. "
                "Wait for it or stop it there; `job(fresh=True)` starts another one beside it."
            )
            raise RunBusyError(msg)


def _age(path: Path) -> float:
    """Return how long ago a file was written, by the clock of the machine that keeps it."""
    with files.explained(path.parent), tempfile.NamedTemporaryFile(dir=path.parent) as now:
        now.write(b".")
        now.flush()
        return os.fstat(now.fileno()).st_mtime - path.stat().st_mtime


@contextmanager
def _one_at_a_time(group: Path) -> Iterator[None]:
    """Let one process at a time decide about the runs of a group."""
    with files.explained(group), (group / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:  # some file servers know no locks: go without
                raise
        yield
