"""What earlier runs have left in a host's work folder, and deleting what no run needs any more.

Code and environments are kept because the next run most likely wants the same. What a run needs is
noted on the host when it is submitted; the note counts until the run has ended. Results, logs and
checkpoints are the run's own folder, which nothing here touches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from theseus.dispatch.inventory import Host
from theseus.dispatch.providers.programs import Report
from theseus.dispatch.registry import ENDED
from theseus.dispatch.remote import RemoteError, ask, folders_of
from theseus.dispatch.transport import Transport

_SUBMITTING = 6 * 3600  # seconds that a submission may take until its run is noted
_ARRIVING = 24 * 3600  # seconds that an upload which was cut is kept, to go on with
_KINDS = {"bundles": "code", "environments": "environment", "incoming": "upload"}


@dataclass(frozen=True)
class Item:
    """Something that lies there.

    Attributes
    ----------
    name
        Its path below our folder: `bundles/3f…`.
    size
        Bytes.
    used
        When it was last wanted, by the host's clock; `age` is how many seconds ago.
    needed_by
        The runs that need it; `a submission` is one that has no run yet.
    """

    name: str
    size: int
    used: float
    age: float
    needed_by: tuple[str, ...]

    @property
    def kind(self) -> str:
        """`code`, `environment` or `upload`."""
        return _KINDS.get(self.name.partition("/")[0], "")


@dataclass(frozen=True)
class Survey:
    """All that lies there, and the notes of runs that have ended."""

    items: tuple[Item, ...]
    ended: tuple[str, ...]

    @property
    def unused(self) -> tuple[Item, ...]:
        """What no run needs, the largest first."""
        return tuple(
            sorted((one for one in self.items if not one.needed_by), key=lambda one: -one.size)
        )


def survey(host: Host, transport: Transport, *, lost: Collection[str] = ()) -> Survey:
    """Return what lies in a host's work folder.

    Parameters
    ----------
    lost
        Ids of runs that are known to have ended although their own records do not say so.
    """
    report = ask(transport, ("used",), folders_of(host, transport).base, timeout=300)
    if "nothing" in report:
        return Survey((), ())
    if "now" not in report:
        raise RemoteError(f"host '{host.name}': {report.text('failed') or report.complaint}")
    return read_survey(report, lost)


def read_survey(report: Report, lost: Collection[str]) -> Survey:
    """Return what the host's answer means; pure."""
    now = float(report.text("now"))
    notes = [_Note.of(section.text) for section in report.each("note")]
    live = [note for note in notes if note.counts(now, lost)]
    ended = tuple(note.name for note in notes if note not in live)
    return Survey(tuple(_items(report, now, notes, live)), ended)


def clean(host: Host, transport: Transport, found: Survey) -> tuple[Item, ...]:
    """Delete what no run needs; return what was deleted.

    What a run has come to need since the survey stays.

    Raises
    ------
    RemoteError
        When nothing can be deleted there.
    """
    unused = {one.name: one for one in found.unused}
    report = ask(
        transport,
        ("clean",),
        folders_of(host, transport).base,
        str(len(found.ended)),
        *found.ended,
        *unused,
        timeout=1800,
    )
    if "failed" in report or "done" not in report:
        raise RemoteError(f"host '{host.name}': {report.text('failed') or report.complaint}")
    return tuple(unused[one.text] for one in report.each("deleted") if one.text in unused)


@dataclass(frozen=True)
class _Note:
    """Who needs what."""

    name: str
    when: float
    folder: str
    needs: frozenset[str]
    state: str

    @classmethod
    def of(cls, text: str) -> _Note:
        values = dict(
            re.findall(r"^(name|when|folder|bundle|environment)=(.*)$", text, re.MULTILINE)
        )
        when = values.get("when", "")
        try:
            status = json.loads(text.rpartition("\n")[2])
            state = str(status.get("state")) if isinstance(status, dict) else ""
        except ValueError:
            state = ""
        return cls(
            values.get("name", ""),
            float(when) if when.isdecimal() else 0.0,
            values.get("folder", ""),
            frozenset(filter(None, (values.get("bundle"), values.get("environment")))),
            state,
        )

    def counts(self, now: float, lost: Collection[str]) -> bool:
        """Say whether what it names is needed. A run whose folder is gone needs nothing."""
        if not self.folder:
            return now - self.when < _SUBMITTING
        return bool(self.state) and self.state not in ENDED and self.run not in lost

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.folder.rpartition("-")[2]


def _items(report: Report, now: float, notes: list[_Note], live: list[_Note]) -> Iterator[Item]:
    for section in report.each("item"):
        found = re.fullmatch(r"(\w+/(.+)) (\d+) (\d+)", section.text, re.ASCII)
        if found is None:
            continue
        name, short = found[1], found[2]
        used = max([float(found[4]), *(note.when for note in notes if short in note.needs)])
        needed = [
            note.run if note.folder else "a submission" for note in live if short in note.needs
        ]
        if name.startswith("incoming/") or short.startswith("."):
            needed = ["a submission"] if now - used < _ARRIVING else []
        yield Item(name, int(found[3]) * 1024, used, max(now - used, 0.0), tuple(sorted(needed)))
