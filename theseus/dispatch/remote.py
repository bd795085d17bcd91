"""Our own questions to a host about a run: what is there, make it, prepare it, read it."""

from __future__ import annotations

import io
import json
import secrets
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from theseus.dispatch.inventory import Cluster, Host
from theseus.dispatch.providers.programs import Report, read_report
from theseus.dispatch.secrets import scrubbed, secrets_in
from theseus.dispatch.transport import Transport, TransportError
from theseus.errors import UserError
from theseus.runs.files import VERSION

if TYPE_CHECKING:
    from theseus.dispatch.environment import Plan


class RemoteError(UserError):
    """A host cannot do what a run needs; the message names the host and what to do."""


@dataclass(frozen=True)
class Folders:
    """The folders of a cluster, as paths on one of its hosts.

    `base` is the one in `work` that is ours alone.
    """

    root: str
    work: str
    base: str
    log: str
    data: str
    checkpoints: str
    results: str

    def bundle(self, digest: str) -> str:
        """Return where a bundle lies, unpacked."""
        return f"{self.base}/bundles/{digest}"


@dataclass(frozen=True)
class FoundRun:
    """A run's folder on a host, as its records say."""

    folder: str
    record: Mapping[str, Any]
    status: Mapping[str, Any]
    launch: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """What is on a host already.

    Attributes
    ----------
    bundle, environment
        Whether the code and its environment are there.
    python
        The version of a prepared Python; None where there is none.
    complaint
        Why the prepared Python does not start.
    use
        Under which name the host has noted that bundle and environment are needed.
    runs
        Runs that may be the same.
    """

    machine: str
    bundle: bool
    environment: bool
    python: str | None
    complaint: str
    use: str = ""
    runs: tuple[FoundRun, ...] = field(default=())


def folders_of(host: Host, transport: Transport) -> Folders:
    """Return a host's folders; `~` and the like are asked for once per host, not once per path."""
    cluster: Cluster = host.cluster

    def resolved(path: str | None) -> str:
        if not path:
            return ""
        start, slash, rest = path.partition("/")
        if start.startswith(("~", "$")) and not ("$" in rest or "~" in rest):
            return f"{transport.resolve(start)}{slash}{rest}".rstrip("/")
        if path.startswith("/") and not ("$" in path or "~" in path):
            return path.rstrip("/") or "/"
        return transport.resolve(path)

    work = resolved(cluster.work)
    return Folders(
        resolved(cluster.root),
        work,
        # Nodes that each have a `work` of their own find code and environments in `share`.
        f"{resolved(cluster.share) or work}/theseus",
        *(resolved(getattr(cluster, name)) for name in ("log", "data", "checkpoints", "results")),
    )


def look(
    host: Host,
    transport: Transport,
    folders: Folders,
    *,
    bundle: str,
    environment: str,
    group: str,
    part: str,
) -> Found:
    """Return what is on the host already for a run; from now on, that stays there for it."""
    use = f"submit-{secrets.token_hex(8)}"
    report = ask(
        transport,
        ("look",),
        folders.base,
        bundle,
        environment,
        _python(host, transport),
        folders.root,
        group,
        part,
        use,
    )
    if "machine" not in report:
        raise RemoteError(f"host '{host.name}': {_said(report)}")
    python = next(iter(report.each("python")), None)
    runs = [
        found
        for section in report.each("run")
        if (found := _found_run(host, f"{folders.root}/{group}", section.text)) is not None
    ]
    works = python is not None and python.status == 0
    return Found(
        report.text("machine"),
        "bundle" in report,
        "environment" in report,
        python.text.strip().splitlines()[-1] if python and works and python.text.strip() else None,
        "" if works or python is None else python.text.strip() or f"exit status {python.status}",
        use,
        tuple(runs),
    )


def _python(host: Host, transport: Transport) -> str:
    path = host.python or ""
    return transport.resolve(path) if path.startswith(("~", "$")) else path


def _found_run(host: Host, group: str, text: str) -> FoundRun | None:
    name, *records = text.split("\n")
    known = secrets_in(host.environment)
    parsed = [scrubbed(_record(text), known) for text in (*records, "", "", "")[:3]]
    record = parsed[0]
    if not record or "/" in name:
        return None
    return FoundRun(f"{group}/{name}", record, parsed[1], parsed[2])


def _record(text: str) -> Mapping[str, Any]:
    """Return a record of ours; an empty one for anything else: what a host says is only data."""
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) and record.get("v") == VERSION else {}


def unpack(host: Host, transport: Transport, folders: Folders, digest: str, archive: str) -> None:
    """Make the folder of a bundle out of its archive on the host."""
    report = ask(transport, ("unpack",), folders.base, digest, archive, timeout=600)
    if "done" not in report:
        raise RemoteError(f"host '{host.name}': {_said(report)}")


def prepare(
    host: Host,
    transport: Transport,
    folders: Folders,
    plan: Plan,
    *,
    bundle: str,
    folder: str,
    version: str | None,
    tell: Callable[[str], None],
) -> None:
    """Make an environment on the host, passing on what uv prints.

    Raises
    ------
    RemoteError
        With the last lines of what was printed, when that fails.
    """
    stream = transport.stream(
        _text("common", "folders", "prepare"),
        "@",
        folders.base,
        folders.bundle(bundle),
        folder,
        plan.key,
        "tied" if plan.tied else "whole" if plan.whole else "few",
        plan.python or "",
        version or "",
        host.setup or "",
        "bare" if plan.sync is None else "sync",
        "".join(f"{one}\n" for one in plan.requirements),
        "".join(f"{one}\n" for one in plan.constraints),
        *(plan.sync or ()),
    )
    lines: list[str] = []
    rest = b""
    for data in stream:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            lines.append(line.decode("utf-8", "replace").rstrip())
            if lines[-1] and not lines[-1].startswith(("ready", "failed ")):
                tell(lines[-1])
    last = next((line for line in reversed(lines) if line), "")
    if last == "ready":
        return
    why = last.removeprefix("failed ") if last.startswith("failed ") else "it ended without a word"
    shown = "\n".join(f"  {line}" for line in lines[-25:-1] if line)
    raise RemoteError(f"host '{host.name}': the environment could not be prepared: {why}\n{shown}")


def write_run(
    host: Host,
    transport: Transport,
    folders: Folders,
    *,
    group: str,
    name: str,
    contents: Mapping[str, bytes],
    use: str,
) -> str:
    """Make the folder of a run, or bring what another attempt needs; return the folder."""
    report = ask(
        transport,
        ("record",),
        folders.root,
        group,
        name,
        f".new-{secrets.token_hex(16)}",
        folders.log,
        folders.data,
        folders.checkpoints,
        folders.results,
        folders.base,
        use,
        given=_archive(contents),
        timeout=120,
    )
    folder = report.text("made") or report.text("found")
    if not folder:
        raise RemoteError(f"host '{host.name}': {_said(report)}")
    return folder


# Both times are the host's, so that its clock may be wrong.
_STATUS = r"""
date +%s
cat "$1/status.json" 2>/dev/null
exit 0
"""


def read_status(transport: Transport, folder: str) -> tuple[Mapping[str, Any], float | None]:
    """Return what a run's `status.json` says, and how many seconds ago it was written.

    An empty record and None when there is none.
    """
    now, _, text = transport.run(_STATUS, folder).text.partition("\n")
    status = _record(text)
    written = status.get("time")
    if not isinstance(written, int | float) or not now.strip().isdecimal():
        return status, None
    return status, abs(float(now) - written)


def write_status(transport: Transport, folder: str, status: Mapping[str, Any]) -> None:
    """Write down how a run ended that could not do so itself."""
    text = json.dumps({"v": VERSION, **status}) + "\n"
    transport.put(text.encode(), f"{folder}/status.json")


def forget_secrets(transport: Transport, folder: str) -> None:
    """Remove the file that brought secrets to a run that has ended."""
    transport.run('rm -f "$1/dispatch.json"', folder)


def _archive(contents: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o600, len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def ask(
    transport: Transport,
    parts: Iterable[str],
    *arguments: str,
    given: bytes = b"",
    timeout: float = 60.0,
) -> Report:
    """Run a program of ours, made of these parts, and return what it answered."""
    mark = f"@{secrets.token_hex(8)}"
    answer = transport.run(
        _text("common", "folders", *parts), mark, *arguments, input=given, timeout=timeout
    )
    return read_report(answer, mark)


def _said(report: Report) -> str:
    return report.text("failed") or report.complaint or "no reason was given"


@cache
def _text(*names: str) -> str:
    ours = files("theseus.dispatch").joinpath("sh")
    theirs = files("theseus.dispatch.providers").joinpath("sh")
    texts = [
        (theirs if name == "common" else ours).joinpath(f"{name}.sh").read_text("utf-8")
        for name in names
    ]
    return "\n".join(texts)


__all__ = ["Folders", "Found", "FoundRun", "RemoteError", "TransportError"]
