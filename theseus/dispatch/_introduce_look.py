"""Looking at a machine: what a host says about itself when one program asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from theseus.dispatch.inventory import Cluster, Host, InventoryError
from theseus.dispatch.providers.nvidia_smi import COLUMNS, parse_gpus
from theseus.dispatch.providers.programs import ask
from theseus.dispatch.providers.request import size_text
from theseus.dispatch.providers.slurm_parse import Node, Partition, parse_nodes, parse_partitions
from theseus.dispatch.transport import RemoteFileError, connect

if TYPE_CHECKING:
    from theseus.dispatch.providers.programs import Report
    from theseus.dispatch.transport import Transport


@dataclass(frozen=True)
class Python:
    """A Python of the host; `is_ready` is whether JAX and theseus are installed in it."""

    path: str
    version: str
    is_ready: bool


@dataclass(frozen=True)
class Found:
    """What a machine said about itself; what it did not say is None or empty.

    Attributes
    ----------
    scratch
        What `$SCRATCH` is there.
    free
        `~` and `$SCRATCH`, as far as they can be written to → free bytes.
    driver
        The main version of the NVIDIA driver.
    gpus
        Product names, one for each GPU of the machine itself.
    nodes, partitions
        What SLURM has, when it answers.
    trouble
        What could not be told, and why.
    """

    home: str = ""
    machine: str = ""
    cpus: int | None = None
    memory: int | None = None
    scratch: str | None = None
    free: Mapping[str, int] = field(default_factory=dict)
    uv: str | None = None
    pythons: tuple[Python, ...] = ()
    driver: int | None = None
    gpus: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    trouble: tuple[str, ...] = ()

    @property
    def is_slurm(self) -> bool:
        """Whether it is the front door of a SLURM cluster."""
        return bool(self.nodes and self.partitions)

    def rows(self) -> list[tuple[str, str]]:
        """Return what was found as labels and texts, for a person."""
        kind = f"SLURM, {len(self.nodes)} nodes" if self.is_slurm else "plain"
        size = [
            f"{self.cpus} CPUs" if self.cpus else "",
            size_text(self.memory) if self.memory else "",
        ]
        counts = {name: self.gpus.count(name) for name in dict.fromkeys(self.gpus)}
        python = next((f"{one.path} ({one.version})" for one in self.pythons), "none")
        rows = [
            ("type", kind),
            ("machine", ", ".join(filter(None, [self.machine, *size]))),
            ("GPUs", ", ".join(f"{count} × {name}" for name, count in counts.items())),
            ("uv", self.uv or "not installed"),
            ("Python", python),
            *((f"free in {place}", size_text(free)) for place, free in self.free.items()),
        ]
        return [(label, text) for label, text in rows if text]


def look(host: str | Transport, *, timeout: float = 90.0) -> Found:
    """Look at a host: what `ssh` is called with, or its transport.

    Raises
    ------
    TransportError
        When it does not answer.
    """
    transport = _reached(host) if isinstance(host, str) else host
    try:
        scratch = transport.resolve("$SCRATCH")
    except RemoteFileError:
        scratch = None
    parts = ("gpus", "introduce", "slurm_common", "slurm_probe")
    report = ask(transport, parts, scratch or "", timeout=timeout)
    return read(report, scratch)


def _reached(alias: str) -> Transport:
    if alias.startswith("-") or not alias.strip():
        msg = f"'{alias}' is nothing that `ssh` can be called with: it would be an option"
        raise InventoryError(msg)
    # Its folders are what we are about to ask for.
    return connect(Host(alias, "plain", Cluster(alias, root="~", work="~"), ssh=alias))


def read(report: Report, scratch: str | None = None) -> Found:
    """Return what a host's answer says."""
    free = {
        place: kib * 1024
        for place, kib in (
            ("~", _whole(report.text("free_home"))),
            ("$SCRATCH", _whole(report.text("free_scratch"))),
        )
        if kib is not None
    }
    memory = _whole(report.text("memory"))
    gpus = parse_gpus(report.text("gpus"), COLUMNS)
    uv = report.text("uv").strip()
    return Found(
        home=report.text("home").strip(),
        machine=report.text("machine").strip(),
        cpus=_whole(report.text("processors")),
        memory=None if memory is None else memory * 1024,
        scratch=scratch,
        free=free,
        uv=uv if uv.startswith("/") else None,
        pythons=_pythons(report.text("pythons")),
        driver=_whole(report.text("driver")),
        gpus=tuple(gpu.name for gpu in gpus.gpus),
        devices=tuple(report.text("devices").split()),
        nodes=parse_nodes(report.text("nodes")),
        partitions=parse_partitions(report.text("partitions")),
        trouble=tuple(_trouble(report, gpus.faults)),
    )


def _pythons(text: str) -> tuple[Python, ...]:
    rows = (line.split(" ", 2) for line in text.splitlines())
    found = {
        row[2]: Python(row[2], row[0], row[1] == "ready")
        for row in rows
        if len(row) == 3 and re.fullmatch(r"3\.\d+", row[0]) and row[2].startswith("/")
    }
    return tuple(one for one in found.values() if int(one.version[2:]) >= 11)


def _trouble(report: Report, faults: tuple[str, ...]) -> list[str]:
    said = [*faults]
    for name, what in (("nodes", "SLURM's nodes"), ("partitions", "SLURM's partitions")):
        said += [
            f"{what}: {(section.text.strip().splitlines() or ['no answer'])[0]}"
            for section in report.each(name)
            if section.status
        ]
    return said


def _whole(text: str) -> int | None:
    found = re.match(r"\s*(\d{1,18})", text, re.ASCII)
    return int(found[1]) if found else None
