"""A SLURM cluster: look at its nodes and queue, submit once, watch and cancel a job."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from theseus.dispatch.inventory import SlurmSettings
from theseus.dispatch.providers.base import Handle, Launch, LaunchError, Placement, Seen, Verdict
from theseus.dispatch.providers.programs import Report, ask
from theseus.dispatch.providers.request import Need, need_of
from theseus.dispatch.providers.slurm_choose import choose, memory_of
from theseus.dispatch.providers.slurm_parse import (
    Node,
    expand_hosts,
    holders,
    parse_estimate,
    parse_gres,
    parse_nodes,
    parse_partitions,
    parse_rows,
)
from theseus.dispatch.providers.slurm_script import job_script, safe_job_name
from theseus.dispatch.providers.slurm_seen import seen

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host, Inventory
    from theseus.dispatch.transport import Transport
    from theseus.hardware.resources import Resources

CANCEL_SECONDS = 60  # KillWait is 30 s where nobody changed it


class SlurmProvider:
    """A cluster with a login node that is reached by ssh."""

    def probe(
        self, host: Host, transport: Transport, wanted: Resources, inventory: Inventory
    ) -> Verdict:
        """Say whether the request fits now or can queue, in which partition, and as which GRES."""
        need = need_of(wanted)
        report = ask(transport, ("slurm_common", "slurm_probe"), timeout=60)
        nodes = parse_nodes(report.text("nodes"))
        partitions = parse_partitions(report.text("partitions"))
        if not nodes or not partitions:
            return Verdict(host.name, "unknown", _trouble(report), probed=time.time())
        mapping = inventory.gres_mapping
        verdict = choose(host, need, nodes, partitions, mapping)
        unclear = any(node.used is None for node in nodes)
        if verdict.fit == "queue" or unclear:
            settings = host.slurm or SlurmSettings()
            trial = _trial(settings, need, verdict.placement) if verdict.placement else []
            more = ask(transport, ("slurm_common", "slurm_queue"), *trial, timeout=60)
            rows = parse_rows(more.text("queue"), 4)
            held = holders(row[:3] for row in rows)
            if unclear:
                nodes = tuple(_with_use(node, rows) for node in nodes)
            verdict = choose(host, need, nodes, partitions, mapping, holders=held)
            if verdict.fit == "queue":
                verdict = replace(verdict, starts=parse_estimate(more.text("trial")))
        return replace(verdict, probed=time.time())

    def hold(
        self, host: Host, transport: Transport, placement: Placement, run_id: str
    ) -> AbstractContextManager[Placement]:
        """Keep nothing: the queue gives what it has when the job's turn comes."""
        return nullcontext(placement)

    def launch(self, host: Host, transport: Transport, launch: Launch) -> Handle:
        """Submit the run's script; an attempt that is queued, runs or has run is found."""
        script = script_of(host, launch)
        report = ask(
            transport,
            ("slurm_common", "slurm_launch"),
            launch.folder,
            launch.log,
            _tag(launch),
            _name(launch),
            launch.attempt,
            given=script.encode(errors="surrogateescape"),
            timeout=240,
        )
        record = report.values("started") or report.values("found")
        if not record.get("job", "").isdecimal():
            raise _not_queued(host, report)
        return Handle(
            "slurm",
            {
                "job": record["job"],
                "cluster": record.get("cluster", ""),
                "folder": launch.folder,
                "run": launch.run_id,
                "attempt": launch.attempt,
            },
        )

    def state(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """Say what became of the job; one that nobody knows has not finished."""
        values = handle.values
        report = ask(
            transport,
            ("slurm_common", "slurm_state"),
            *(values[name] for name in ("folder", "job", "cluster")),
            timeout=60,
        )
        if "failed" in report:
            return Seen("unknown", report.text("failed"), None, time.time())
        return seen(report, str(values["job"]))

    def cancel(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """Cancel the job, wait until SLURM says that it is over, and look on its nodes."""
        values = handle.values
        report = ask(
            transport,
            ("slurm_common", "slurm_cancel"),
            *(values[name] for name in ("folder", "job", "cluster")),
            CANCEL_SECONDS,
            *(values[name] for name in ("run", "attempt")),
            timeout=CANCEL_SECONDS + 120,
        )
        found = self.state(host, transport, handle)
        if left := report.text("left").strip():
            said = report.text("scancel").strip()
            reason = f"SLURM still has it as {left.lower()}{f' ({said})' if said else ''}"
            return replace(found, reason=reason)
        return _after_sweep(found, report)


def script_of(host: Host, launch: Launch) -> str:
    """Return the batch script of a run: all that SLURM is given."""
    placement, settings = launch.placement, host.slurm or SlurmSettings()
    need = Need((), placement.gpus_per_node, placement.nodes, launch.cpus, launch.memory)
    return job_script(
        run_id=launch.run_id,
        attempt=launch.attempt,
        job_name=_name(launch),
        tag=_tag(launch),
        folder=launch.folder,
        work=launch.work,
        log=launch.log,
        command=launch.command,
        nodes=need.nodes,
        partition=placement.partition,
        gres=placement.gres,
        cpus=need.cpus,
        memory_mib=memory_of(settings, need),
        extra=settings.extra,
        **_limits(settings),
    )


def _name(launch: Launch) -> str:
    return safe_job_name(launch.name, launch.run_id, launch.attempt)


def _tag(launch: Launch) -> str:
    return f"theseus {launch.run_id} {launch.attempt}"


def _after_sweep(found: Seen, report: Report) -> Seen:
    """Return how a cancelled job ended, from what was seen on its nodes afterwards."""
    if "sweep" not in report:
        return found  # it had no nodes
    said = report.text("sweep")
    nodes = dict(re.findall(r"^node (\S+) (.+)$", said, re.MULTILINE))
    left = [f"{pids.strip()} on {name}" for name, pids in nodes.items() if pids != "clear"]
    if left:
        return replace(found, state="running", reason=f"cannot be ended: process {', '.join(left)}")
    if len(nodes) == int(report.text("nodes") or 0):
        return found
    lines = [line.strip() for line in said.splitlines() if "srun:" in line]
    why = lines[-1].removeprefix("srun: ").removeprefix("error: ") if lines else "no answer"
    note = f"whether it left a process behind on its nodes could not be seen ({why})"
    return replace(found, note=note)


class _Limits(TypedDict):
    account: str | None
    qos: str | None
    time: str | None
    exclude: str | None
    constraint: str | None


def _limits(settings: SlurmSettings) -> _Limits:
    """Return the options that come from the inventory as they are."""
    return _Limits(
        account=settings.account,
        qos=settings.qos,
        time=settings.time,
        exclude=",".join(settings.exclude) or None,
        constraint=settings.constraint,
    )


def _trial(settings: SlurmSettings, need: Need, placement: Placement) -> list[str]:
    """Return the options of a job like the one that would be submitted."""
    options: Mapping[str, object] = {
        "nodes": need.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": need.cpus,
        "mem": None if (memory := memory_of(settings, need)) is None else f"{memory}M",
        "gres": placement.gres,
        "partition": placement.partition,
        **_limits(settings),
    }
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def _with_use(node: Node, rows: list[tuple[str, ...]]) -> Node:
    """Return a node that does not say what is in use, as the queue has it."""
    if node.used is not None:
        return node
    used: dict[str, int] = {}
    for _, _, gres, hosts in rows:
        if node.name in expand_hosts(hosts):
            for kind, count in parse_gres(gres).items():
                # A job that named no type may have any of them.
                for one in [kind] if kind else node.gpus:
                    used[one] = used.get(one, 0) + count
    return replace(node, used=used)


def _trouble(report: Report) -> str:
    said = "\n".join((report.text("failed"), report.text("nodes"), report.text("partitions")))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    statuses = {section.status for section in report.sections}
    if not lines and 124 in statuses:
        return "SLURM gave no answer in time"
    return lines[0] if lines else report.complaint or "SLURM shows no nodes"


def _not_queued(host: Host, report: Report) -> LaunchError:
    if "refused" in report:
        said = report.text("refused").strip()
        return LaunchError(f"host '{host.name}': SLURM refused the run: {said}")
    if "unclear" in report:
        said = report.text("unclear")
        msg = (
            f"host '{host.name}': {said}. Submitting again looks for it first, and never starts two"
        )
        return LaunchError(msg)
    said = report.text("failed") or report.text("locked") or report.complaint
    return LaunchError(f"host '{host.name}': the run was not queued: {said or 'no reason given'}")
