"""What words of a line may be: jobs, chips, hosts, runs, files. From files here; no host is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theseus.errors import UserError

_FOLDERS = ("FOLDER", "ROOT")
_MANY = 200  # of files, that is


@dataclass(frozen=True)
class Offer:
    """Something that may be written.

    Attributes
    ----------
    after
        What comes behind it, outside of quotes.
    """

    text: str
    type: str
    detail: str = ""
    help: str = ""
    after: str = ""


def of_option(option: Any, written: str) -> Iterator[Offer]:
    """Return what the value of an option may be."""
    if option.name in {"project", "group"}:
        yield from _labels(option.name)
    else:
        yield from _of(option.metavar or "", written)


def of_argument(
    argument: Any, command: str, written: str, classes: Mapping[str, Any] | None
) -> Iterator[Offer]:
    """Return what an argument of a command may be."""
    metavar = argument.metavar or ""
    if command == "test" and metavar == "NAME":
        metavar = "HOST"
    yield from _of(metavar, written)
    if metavar == "JOB" and classes:
        yield from (Offer(name, "job", help=_about(cls)) for name, cls in sorted(classes.items()))


def job_of(command: str, positionals: Sequence[str]) -> str:
    """Return the job whose keys a command takes: named, or in the file that is named."""
    if command == "configure":
        return positionals[0] if positionals else ""
    if len(positionals) < 2:
        return ""
    from theseus.combobulation import Combobulation

    try:
        return Combobulation.load(positionals[1]).job.name
    except UserError:
        return ""


def _of(metavar: str, written: str) -> Iterator[Offer]:
    known = _KNOWN.get(metavar)
    if known is not None:
        try:
            yield from known()
        except UserError:
            return  # an inventory with a mistake in it; the command will say so
    elif metavar in {"FILE", "SCRIPT", *_FOLDERS}:
        yield from _files(written, folders_only=metavar in _FOLDERS)


def _jobs() -> Iterator[Offer]:
    from theseus import registry

    return (Offer(one.key, "job", help=one.help) for one in registry.entries("job"))


def _chips() -> Iterator[Offer]:
    from theseus._summary import size_text
    from theseus.hardware.chips import chips

    for one in chips():
        yield Offer(one.name, "chip", size_text(one.memory_bytes) if one.memory_bytes else "")


def _hosts() -> Iterator[Offer]:
    from theseus.dispatch.inventory import load_inventory

    known = load_inventory()
    for name in known.priority:
        host = known.hosts[name]
        chips = ", ".join(f"{count} × {chip}" for chip, count in host.chips.items())
        yield Offer(name, "host", f"{host.type}{f', {chips}' if chips else ''}")


def _clusters() -> Iterator[Offer]:
    from theseus.dispatch.inventory import load_inventory

    return (Offer(one.name, "cluster", one.root) for one in load_inventory().clusters.values())


def _runs() -> Iterator[Offer]:
    from theseus.dispatch.registry import Registry
    from theseus.runs.words import one_line

    entries = Registry().entries()
    names = [one.name for one in entries]
    for one in entries:
        detail = one_line(f"{one.state} on {one.host}")
        if names.count(one.name) == 1 and one.name.isprintable():
            yield Offer(one.name, "run", f"{one.id}, {detail}")
        else:  # several have this name: only an id says which
            yield Offer(one.id, "run", one_line(f"{one.name}, {detail}"))
    if entries:
        yield Offer("latest", "run", f"{one_line(entries[0].name)}, {entries[0].id}")
    for one in entries:
        if names.count(one.name) == 1:
            yield Offer(one.id, "run", one_line(f"{one.name}, {one.state} on {one.host}"))


def _labels(what: str) -> Iterator[Offer]:
    from theseus.dispatch.registry import Registry

    found = dict.fromkeys(getattr(one, what) for one in Registry().entries())
    return (Offer(label, what) for label in found if label.isprintable())


def _commands() -> Iterator[Offer]:
    from typer.main import get_command

    from theseus.cli.app import app

    commands: Any = get_command(app)
    for name, one in commands.commands.items():
        if not one.hidden:
            yield Offer(name, "command", help=(one.help or "").split("\n")[0])


_KNOWN: Mapping[str, Callable[[], Iterator[Offer]]] = {
    "JOB": _jobs,
    "CHIP": _chips,
    "HOST": _hosts,
    "CLUSTER": _clusters,
    "RUN": _runs,
    "COMMAND": _commands,
}


def _files(written: str, *, folders_only: bool) -> Iterator[Offer]:
    above, slash, _ = written.rpartition("/")
    folder = Path(above + slash or ".")
    try:
        with os.scandir(folder.expanduser()) as found:
            entries = sorted(found, key=lambda one: one.name)[:_MANY]
            for one in entries:
                if one.name.startswith("."):
                    continue
                if one.is_dir():
                    yield Offer(f"{above}{slash}{one.name}/", "folder")
                elif not folders_only:
                    yield Offer(f"{above}{slash}{one.name}", "file")
    except (OSError, RuntimeError):
        return  # no such folder, or none that may be read: nothing to offer


def _about(cls: Any) -> str:
    return (getattr(cls, "__doc__", None) or "").strip().split("\n")[0]
