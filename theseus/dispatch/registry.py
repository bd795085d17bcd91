"""The runs that were sent somewhere, as this user's machine remembers them: one JSON file each.

Kernels, terminals and servers of the user share these files and nothing else. A reader sees whole
records; who changes one holds its lock, so that two who submit the same thing start it once.
"""

from __future__ import annotations

import fcntl
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from theseus.dispatch.inventory import state_folder
from theseus.errors import UserError, did_you_mean
from theseus.runs import files

ENDED = frozenset({"finished", "failed", "cancelled", "lost"})
_PLAIN = (
    "id", "name", "project", "group", "job", "host", "cluster", "folder", "attempt", "chips",
    "nodes", "submitted", "state", "reason", "starts", "seen",
)  # fmt: skip
_ID = re.compile(r"[0-9a-f]{6,64}")


class RegistryError(UserError):
    """No run, or more than one, is meant by what was written."""


@dataclass(frozen=True)
class Entry:
    """What is known here of one run that was submitted.

    Attributes
    ----------
    id, name, project, group, job
        As in the run's own `run.json`.
    base, fresh
        What makes it the same run as another, and which of several that were asked for anew.
    host, cluster, kind
        Where it is, by the names of the inventory, and the host's type.
    inventory
        The file in which that host stands; None for the usual place.
    folder
        The run's own folder on the host.
    work
        Where its code lies there.
    attempt
        Which launch this is; one more each time a run that failed is submitted again.
    nodes
        On how many machines it works, and so how many logs it has.
    handle
        What the provider finds it by; empty until it was launched.
    submitted
        When, by this machine's clock.
    state, reason, starts, seen
        What was last seen, and when.
    status
        The newest `status.json` that was read.
    """

    id: str
    name: str
    project: str
    group: str
    job: str
    base: str
    host: str
    cluster: str
    kind: str
    folder: str
    work: str = ""
    fresh: int = 0
    inventory: str | None = None
    attempt: int = 1
    nodes: int = 1
    chips: str = ""
    handle: Mapping[str, str | int] = field(default_factory=dict)
    submitted: float = 0.0
    state: str = "queued"
    reason: str | None = None
    starts: float | None = None
    seen: float = 0.0
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it was seen to have ended."""
        return self.state in ENDED

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, for `--json`; nothing in it is a secret."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "provider": self.kind,
            "progress": self.status.get("progress"),
            "latest": self.status.get("latest") or {},
            "checkpoint": self.status.get("checkpoint"),
        }


class Registry:
    """The entries in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or state_folder()) / "runs"

    def path(self, run: str) -> Path:
        """Return the file of a run's entry."""
        if not _ID.fullmatch(run):
            msg = f"{run!r} is not the id of a run"
            raise RegistryError(msg)
        return self.folder / f"{run}.json"

    def copies(self, run: str) -> Path:
        """Return the folder in which copies of the run's log and metrics grow."""
        return self.path(run).with_suffix("")

    def get(self, run: str) -> Entry | None:
        """Return the entry of the run with this id, if there is one."""
        path = self.path(run)
        if not path.is_file():
            return None
        record = files.read_json(path)
        return _entry(record)

    def put(self, entry: Entry) -> Entry:
        """Write an entry, whole or not at all."""
        self._make()
        files.write_json(self.path(entry.id), asdict(entry))
        return entry

    def change(self, run: str, **changes: Any) -> Entry:
        """Change some facts of an entry, whatever the others have become meanwhile."""
        with self._writing(run):
            entry = self.get(run)
            if entry is None:
                msg = f"the run {run} is no longer in {self.folder}"
                raise RegistryError(msg)
            return self.put(replace(entry, **changes))

    def entries(self) -> list[Entry]:
        """Return all entries, the newest submission first; one that cannot be read is left out."""
        found = []
        for path in self.folder.glob("*.json"):
            if not _ID.fullmatch(path.stem):
                continue
            try:
                found.append(_entry(files.read_json(path)))
            except (files.RecordError, TypeError, ValueError):
                continue
        return sorted(found, key=lambda one: (-one.submitted, one.id))

    def find(self, word: str) -> Entry:
        """Return the run that a word means: an id, the beginning of one, a name, or `latest`.

        Raises
        ------
        RegistryError
            When none or several are meant; the message lists them.
        """
        entries = self.entries()
        if not entries:
            raise RegistryError("no run was submitted from this machine yet")
        if word == "latest":
            return entries[0]
        exact = [one for one in entries if one.id == word]
        named = [one for one in entries if one.name == word]
        begun = [one for one in entries if len(word) >= 2 and one.id.startswith(word)]
        found = exact or named or begun
        if len(found) == 1:
            return found[0]
        if not found:
            known = [*(one.name for one in entries), *(one.id for one in entries)]
            msg = f"there is no run '{word}'{did_you_mean(word, known)} (`theseus runs` lists them)"
            raise RegistryError(msg)
        told = "".join(f"\n  {one.id}  {one.name}  {one.state} on {one.host}" for one in found[:9])
        msg = f"'{word}' means {len(found)} runs; give the id of one:{told}"
        raise RegistryError(msg)

    def of_base(self, base: str) -> Entry | None:
        """Return the newest of the runs that were made for the same thing."""
        found = [one for one in self.entries() if one.base == base]
        return max(found, key=lambda one: one.fresh, default=None)

    @contextmanager
    def submitting(self, base: str) -> Iterator[None]:
        """Let one process at a time submit the same thing."""
        with self._locked(_submitting(base)):
            yield

    def is_being_submitted(self, base: str) -> bool:
        """Return whether some process is submitting this very thing right now."""
        try:
            with (self.folder / _submitting(base)).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    @contextmanager
    def _writing(self, run: str) -> Iterator[None]:
        with self._locked(f".{run}.lock"):
            yield

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        self._make()
        with files.explained(self.folder), (self.folder / name).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make(self) -> None:
        with files.explained(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _submitting(base: str) -> str:
    return f".{base[:16]}.submitting"


def _entry(record: Mapping[str, Any]) -> Entry:
    known = {name: record[name] for name in Entry.__dataclass_fields__ if name in record}
    return Entry(**known)


# What hosts were seen to have, for those who want an answer at once.


def remember_hosts(verdicts: Iterable[Any], folder: Path | None = None) -> None:
    """Keep what the hosts said, beside what others said before."""
    path = (folder or state_folder()) / "hosts.json"
    known = recalled_hosts(folder)
    for one in verdicts:
        known[one.host] = {
            "fit": one.fit,
            "reason": one.reason,
            "free": dict(one.free),
            "total": dict(one.total),
            "holders": dict(one.holders),
            "starts": one.starts,
            "probed": one.probed or time.time(),
        }
    with files.explained(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write_json(path, {"hosts": known}, durable=False)


def recalled_hosts(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return what `remember_hosts` kept, by host."""
    try:
        record = files.read_json((folder or state_folder()) / "hosts.json")
    except files.RecordError:
        return {}
    hosts = record.get("hosts")
    return dict(hosts) if isinstance(hosts, dict) else {}
