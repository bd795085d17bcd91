"""Judge one machine: what a request would get there, and what stands in its way. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from theseus.dispatch.providers.base import Placement, Verdict
from theseus.dispatch.providers.nvidia_smi import (
    COLUMNS,
    Gpu,
    GpuProcess,
    Reading,
    parse_gpus,
    parse_processes,
    steadied,
    why_not_free,
)
from theseus.dispatch.providers.request import Need, counts_text, having_text, size_text
from theseus.hardware.chips import chips

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host
    from theseus.dispatch.providers.programs import Report

_WHOLE_TPU = "tpu"  # a claim on all of a machine's TPU chips


@dataclass(frozen=True)
class Machine:
    """What a machine said of itself.

    Attributes
    ----------
    memory, available
        Bytes; None where the machine does not tell.
    reading
        None when there is no `nvidia-smi`.
    owners
        Process → user; one that is missing has ended, when `visible`.
    claims
        UUID → who has claimed it.
    devices
        How many accelerators there are that nvidia-smi does not know.
    """

    cpus: int
    memory: int | None
    available: int | None
    load: float | None
    reading: Reading | None
    processes: tuple[GpuProcess, ...]
    owners: Mapping[int, str]
    visible: bool
    claims: Mapping[str, str]
    devices: int


def machine_of(report: Report) -> Machine:
    """Return what `plain_probe` printed."""
    sizes = dict(re.findall(r"^(\w+) (\d+)$", report.text("memory"), re.MULTILINE | re.ASCII))
    load = re.search(r"load averages?: *(\d+\.\d+)", report.text("load"), re.ASCII)
    readings = [parse_gpus(section.text, COLUMNS) for section in report.each("gpus")]
    processors = report.text("processors").strip()
    owners = re.findall(r"^(\d+) (\S+)$", report.text("owners"), re.MULTILINE | re.ASCII)
    claims = [line.split(" ") for line in report.text("claims").splitlines()]
    return Machine(
        cpus=int(processors) if re.fullmatch(r"\d{1,6}", processors, re.ASCII) else 1,
        memory=int(sizes["MemTotal"]) * 1024 if "MemTotal" in sizes else None,
        available=int(sizes["MemAvailable"]) * 1024 if "MemAvailable" in sizes else None,
        load=float(load[1]) if load else None,
        reading=steadied(readings) if readings else None,
        processes=parse_processes(report.text("processes")),
        owners={int(pid): user for pid, user in owners},
        visible="visible" in report,
        claims={claim[0]: claim[1] for claim in claims if len(claim) >= 2},
        devices=len(re.findall(r"^/dev/", report.text("devices"), re.MULTILINE)),
    )


def judge(host: Host, need: Need, machine: Machine) -> tuple[Verdict, bool]:
    """Return the verdict, and whether a second look might better it."""
    reading = machine.reading or Reading(())
    states = {gpu.uuid: _hindrance(gpu, machine) for gpu in reading.gpus}
    verdict = Verdict(
        host.name,
        "no",
        "",
        free=_count([gpu for gpu in reading.gpus if states[gpu.uuid] is None]),
        total=_count(reading.gpus),
        holders=_holders(reading.gpus, machine),
        probed=time.time(),
    )
    doubtful = any(text and "no process" in text for text in states.values())
    if problem := _machine_problem(need, machine):
        return replace(verdict, reason=problem), False
    if not need.gpus:
        return replace(
            verdict, fit="now", reason=_cpu_text(machine), placement=_place(host, need)
        ), False
    if machine.reading is None or not reading.gpus:
        return _without_gpus(host, need, machine, verdict), False
    for chip in need.chips or tuple(verdict.total):
        free = [gpu for gpu in reading.gpus if gpu.chip == chip and states[gpu.uuid] is None]
        # GPUs of one chip may still be of two products; a run gets the same product throughout.
        for product in dict.fromkeys(gpu.name for gpu in free):
            same = [gpu.uuid for gpu in free if gpu.name == product]
            if len(same) >= need.gpus:
                reason = f"{len(free)} of {verdict.total[chip]} {chip} free{_bad_text(reading)}"
                placement = replace(_place(host, need), chip=chip, gpu_ids=tuple(same[: need.gpus]))
                return replace(verdict, fit="now", reason=reason, placement=placement), False
    return replace(verdict, reason=_busy_text(need, reading, states, verdict)), doubtful


def _place(host: Host, need: Need) -> Placement:
    return Placement(host=host.name, chip=None, gpus_per_node=need.gpus, nodes=1)


def _hindrance(gpu: Gpu, machine: Machine) -> str | None:
    """Return what keeps a GPU from being used, or None; `held by NAME` when somebody uses it."""
    if gpu.uuid in machine.claims:
        return f"held by {machine.claims[gpu.uuid]}"
    mine = [process for process in machine.processes if process.uuid == gpu.uuid]
    problem = why_not_free(gpu)
    if problem and not mine:
        return problem
    for process in mine:
        if process.pid in machine.owners:
            return f"held by {machine.owners[process.pid]}"
    if mine:
        gone = "that is gone" if machine.visible else "that cannot be seen"
        return f"held by a process {gone} ({mine[0].pid})"
    return None


def _holders(gpus: tuple[Gpu, ...], machine: Machine) -> dict[str, int]:
    held: dict[str, int] = {}
    for gpu in gpus:
        users = {
            machine.owners[process.pid]
            for process in machine.processes
            if process.uuid == gpu.uuid and process.pid in machine.owners
        }
        for user in users or {machine.claims[gpu.uuid]} if gpu.uuid in machine.claims else users:
            held[user] = held.get(user, 0) + 1
    return held


def _count(gpus: list[Gpu] | tuple[Gpu, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for gpu in gpus:
        counts[gpu.chip] = counts.get(gpu.chip, 0) + 1
    return counts


def _machine_problem(need: Need, machine: Machine) -> str | None:
    if need.nodes > 1:
        return f"needs {need.nodes} nodes, is one machine"
    if need.cpus and need.cpus > machine.cpus:
        return f"needs {need.cpus} CPUs, has {machine.cpus}"
    if need.memory and machine.memory is not None:
        if need.memory > machine.memory:
            return f"needs {size_text(need.memory)} of memory, has {size_text(machine.memory)}"
        if machine.available is not None and need.memory > machine.available:
            return (
                f"needs {size_text(need.memory)} of memory, "
                f"{size_text(machine.available)} of {size_text(machine.memory)} are free"
            )
    return None


def _cpu_text(machine: Machine) -> str:
    parts = [f"{machine.cpus} CPUs"]
    if machine.available is not None:
        parts.append(f"{size_text(machine.available)} of memory free")
    if machine.load is not None:
        parts.append(f"load {machine.load:g}")
    return ", ".join(parts)


def _without_gpus(host: Host, need: Need, machine: Machine, verdict: Verdict) -> Verdict:
    """Judge a machine on which nvidia-smi is missing or shows nothing: TPUs, or none at all."""
    tpus = {one.name for one in chips() if one.kind == "tpu"}
    for name, count in host.chips.items():
        if name not in tpus or not machine.devices or (need.chips and name not in need.chips):
            continue
        totals = {name: count}
        holder = machine.claims.get(_WHOLE_TPU)
        if holder:
            held = {holder: count}
            reason = f"{count} × {name} busy ({counts_text(held)})"
            return replace(verdict, reason=reason, total=totals, free={name: 0}, holders=held)
        if need.gpus != count:
            reason = f"its {count} × {name} are used together: ask for {count}"
            return replace(verdict, reason=reason, total=totals, free=totals)
        placement = replace(_place(host, need), chip=name, gpu_ids=(_WHOLE_TPU,))
        reason = f"{count} of {count} {name} free"
        return replace(
            verdict, fit="now", reason=reason, placement=placement, total=totals, free=totals
        )
    wanted = " or ".join(need.chips) or "GPUs"
    if machine.reading is None:
        return replace(verdict, reason=f"needs {wanted}, has no GPUs (no nvidia-smi there)")
    said = f": {machine.reading.faults[0]}" if machine.reading.faults else ""
    return replace(verdict, reason=f"needs {wanted}, nvidia-smi shows no GPU{said}")


def _busy_text(
    need: Need, reading: Reading, states: Mapping[str, str | None], verdict: Verdict
) -> str:
    names = " or ".join(need.chips) or "GPU"
    ours = [gpu for gpu in reading.gpus if not need.chips or gpu.chip in need.chips]
    if not ours:
        return f"needs {names}, {having_text(gpu.chip for gpu in reading.gpus)}{_bad_text(reading)}"
    if len(ours) < need.gpus:
        return f"needs {need.gpus} × {names}, has {len(ours)}{_bad_text(reading)}"
    stopped = {gpu.index: states[gpu.uuid] for gpu in ours if states[gpu.uuid]}
    if len(ours) - len(stopped) >= need.gpus:
        return f"needs {need.gpus} × {names} of one kind, has {counts_text(verdict.free)} free"
    held = verdict.holders and f" ({counts_text(verdict.holders)})"
    others = "; ".join(
        f"GPU {index} {text}"
        for index, text in stopped.items()
        if text and (not text.startswith("held by ") or text.startswith("held by a process"))
    )
    free = len(ours) - len(stopped)
    of_all = f"{len(stopped)} of {len(ours)}" if free else f"{len(ours)}"
    return (
        f"{of_all} × {names} busy{held or ''}{'; ' + others if others else ''}{_bad_text(reading)}"
    )


def _bad_text(reading: Reading) -> str:
    silent = reading.bad - sum(gpu.broken is not None for gpu in reading.gpus)
    if not silent:
        return ""
    return f"; {silent} card{'s' if silent > 1 else ''} did not answer"
