"""The configuration keys of a job, at once: from the class where it is loaded, else from a file.

To know the keys of a built-in job its class is imported, and with it JAX: seconds, which a Tab must
not take. So another process imports it, once, and what it says is kept in the user's cache folder
until a file of this package changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from theseus import registry
from theseus.config import MISSING, KeyRecord, describe

VERSION = 1
_LONGEST = 60.0  # seconds for the other process

_asked: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def keys_of_job(
    job: str, classes: Mapping[str, Any] | None = None, *, wait: float = _LONGEST
) -> list[KeyRecord]:
    """Return one record per key of a job; none for a job that is not known, or not known in time.

    Parameters
    ----------
    job
        A registered key, or a name in `classes`.
    classes
        Further names that stand for classes: those of a notebook.
    wait
        How many seconds may be waited where another process must look. It goes on afterwards, so
        that the next call has the answer.
    """
    entry = next((one for one in registry.entries("job") if one.key == job), None)
    chosen = (classes or {}).get(job) if entry is None else _loaded(entry)
    if chosen is not None:
        try:
            return describe(chosen)
        except Exception:  # noqa: BLE001 - a half-written class of a notebook says nothing yet
            return []
    if entry is None or not isinstance(entry.target, str):
        return []
    file, made_of = _file(job), _fingerprint(entry.target)
    found = _read(file, made_of)
    if found is None:
        with _lock:
            asking = _asked.get(job)
            if asking is None or not asking.is_alive():
                asking = threading.Thread(target=_ask, args=(job, file, made_of), daemon=True)
                _asked[job] = asking
                asking.start()
        asking.join(wait)
        # While the other process looks, what an earlier version of this package had is near enough.
        found = _read(file, None if asking.is_alive() else made_of)
    return found or []


def _loaded(entry: registry.Entry) -> type | None:
    if isinstance(entry.target, type):
        return entry.target
    return entry.load() if entry.target.partition(":")[0] in sys.modules else None


def cache_folder() -> Path:
    """Return the folder in which programs of this user keep what they can make again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "theseus"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "theseus"


def _file(job: str) -> Path:
    return cache_folder() / "keys" / f"{job.replace('/', '.')}.json"


def _fingerprint(target: str) -> str:
    """Return a digest of which files the package consists of, by size and time."""
    package = Path(__file__).parent
    told = [target, str(package), sys.version]
    for folder, _, names in os.walk(package):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)  # noqa: PTH118 - hundreds of them, at each Tab
                facts = os.stat(path)  # noqa: PTH116
                told.append(f"{path} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()


def _read(file: Path, made_of: str | None) -> list[KeyRecord] | None:
    try:
        kept = json.loads(file.read_text("utf-8"))
        if kept["v"] != VERSION or made_of not in {None, kept["made_of"]}:
            return None
        return [_record(one) for one in kept["keys"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _record(told: dict[str, Any]) -> KeyRecord:
    return KeyRecord(
        told["key"],
        told["type"],
        MISSING if told["required"] else told["default"],
        MISSING,
        told["help"],
        None if told["choices"] is None else tuple(told["choices"]),
        told["ge"],
        told["le"],
        told["log"],
        tuple(told["owners"]),
    )


def _ask(job: str, file: Path, made_of: str) -> None:
    """Let another process say the keys, and keep them; where that fails, nothing is kept."""
    words = [sys.executable, "-m", "theseus", "jobs", job, "--verbose", "--json"]
    package = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST,
            check=True,
            # No device is touched, whatever this process was told to use.
            env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
        )
        (told,) = json.loads(done.stdout)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        kept = {"v": VERSION, "made_of": made_of, "keys": told["keys"]}
        temporary.write_text(json.dumps(kept), encoding="utf-8")
        temporary.replace(file)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return  # the next Tab asks again; `theseus jobs -v JOB` says what is wrong
