"""A Volcano queue on Kubernetes: `kubectl` here, code and records on a volume that pods share."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from theseus.dispatch.providers.base import (
    Handle,
    Launch,
    LaunchError,
    Placement,
    Seen,
    Verdict,
)
from theseus.dispatch.providers.endings import seen_by_exit
from theseus.dispatch.providers.kubectl import kubectl, settings_of
from theseus.dispatch.providers.request import Need, having_text, need_of
from theseus.dispatch.providers.volcano_manifest import JOB_NAME_LABEL, job_manifest, job_name
from theseus.dispatch.providers.volcano_seen import phase_of, pods_of, seen, seen_by_phase
from theseus.dispatch.transport import TransportError

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host, Inventory, VolcanoSettings
    from theseus.dispatch.transport import Transport
    from theseus.hardware.resources import Resources

JOBS = "jobs.batch.volcano.sh"
_QUEUES = "queues.scheduling.volcano.sh"
_DELETE_SECONDS = 150  # a pod has 120 s to save

_READ_EXIT = 'cat "$1/exit" 2>/dev/null; printf "\nstop=%s\n" "$(cat "$1/stop" 2>/dev/null)"'
_WRITE_STOP = 'printf "cancel\n" >"$1/stop.part" && mv -f "$1/stop.part" "$1/stop"'


class VolcanoProvider:
    """One pool of equal nodes behind a queue. The transport of such a host reaches its volume."""

    def probe(
        self, host: Host, transport: Transport, wanted: Resources, inventory: Inventory
    ) -> Verdict:
        """Say whether the pool can take it, and whether the queue has room now."""
        settings, need = settings_of(host), need_of(wanted)
        answer = kubectl(host, "get", _QUEUES, settings.queue, "--output=json")
        if answer.missing:
            return _verdict(host, "no", f"there is no queue '{settings.queue}'")
        if answer.status != 0 and not answer.forbidden:
            return _verdict(host, "unknown", answer.said)
        return judge(host, settings, need, answer.value())

    def hold(
        self, host: Host, transport: Transport, placement: Placement, run_id: str
    ) -> AbstractContextManager[Placement]:
        """Keep nothing: the queue gives what it has when the job's turn comes."""
        return nullcontext(placement)

    def launch(self, host: Host, transport: Transport, launch: Launch) -> Handle:
        """Create the job; the one of this attempt is found when it was created before."""
        settings = settings_of(host)
        name = job_name(launch.run_id, launch.attempt)
        manifest = json.dumps(job_manifest(launch, settings))
        answer = kubectl(host, "create", "--filename=-", given=manifest, timeout=60)
        if answer.status != 0 and "(AlreadyExists)" not in answer.complaint:
            # Whether it was created before the answer was lost, only the cluster can tell.
            there = kubectl(host, "get", JOBS, name, "--output=name")
            if there.status != 0:
                if there.missing and answer.status is not None:
                    msg = f"host '{host.name}': Kubernetes refused the run: {answer.said}"
                else:
                    msg = (
                        f"host '{host.name}': {answer.said}, and whether the run was created is "
                        "not known. Submitting again looks for it first, and never starts two"
                    )
                raise LaunchError(msg)
        return Handle(
            "volcano",
            {
                "job": name,
                "namespace": settings.namespace,
                "folder": launch.folder,
                "attempt": launch.attempt,
                "nodes": launch.placement.nodes,
            },
        )

    def state(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """Say what became of the job: its pods first, then our own record, then its phase."""
        values = handle.values
        job = kubectl(host, "get", JOBS, str(values["job"]), "--output=json")
        selector = f"--selector={JOB_NAME_LABEL}={values['job']}"
        pods = kubectl(host, "get", "pods", selector, "--output=json")
        if pods.status != 0 or (job.status != 0 and not job.missing):
            said = (job if job.status != 0 and not job.missing else pods).said
            return Seen("unknown", said, None, time.time())
        phase = phase_of(job.value())
        found = seen(phase, pods_of(pods.value()), int(values["nodes"]))
        if found:
            return found
        try:
            ours = _our_record(transport, handle)
        except TransportError as error:
            ours = seen_by_phase(phase) or Seen("unknown", str(error), None, time.time())
        if ours:
            return ours
        if hint := seen_by_phase(phase):
            return hint
        if job.missing:
            why = "the job has been deleted, and it left no record"
            return Seen("lost", why, None, time.time())
        return Seen("queued", phase.lower() or "its pods are not made yet", None, time.time())

    def cancel(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """Delete the job and see that its pods are gone."""
        before = self.state(host, transport, handle)
        if before.state in {"finished", "failed", "cancelled"}:
            return before
        values = handle.values
        with contextlib.suppress(TransportError):  # the worker reads why it is ended
            transport.run(_WRITE_STOP, str(values["folder"]))
        answer = kubectl(
            host,
            "delete",
            JOBS,
            str(values["job"]),
            "--ignore-not-found",
            "--cascade=foreground",
            f"--timeout={_DELETE_SECONDS}s",
            timeout=_DELETE_SECONDS + 10,
        )
        selector = f"--selector={JOB_NAME_LABEL}={values['job']}"
        pods = kubectl(host, "get", "pods", selector, "--output=name")
        left = pods.text.split() if pods.status == 0 else []
        if left:
            return Seen("running", f"not gone yet: {', '.join(left)}", None, time.time())
        if answer.status != 0 or pods.status != 0:
            said = (answer if answer.status != 0 else pods).said
            return Seen("unknown", said, None, time.time())
        return Seen("cancelled", None, None, time.time())


def judge(host: Host, settings: VolcanoSettings, need: Need, queue: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a request from what the queue says of itself; pure."""
    chips = [name for name in host.chips if name != "cpu"]
    chip = next((name for name in need.chips if name in chips), None)
    if need.gpus and not need.chips:
        chip = chips[0] if chips else None
    if need.gpus and chip is None:
        wanted = " or ".join(need.chips) or "GPUs"
        return _verdict(host, "no", f"needs {wanted}, {having_text(chips)}")
    if need.gpus > settings.gpus_per_node:
        reason = f"needs {need.gpus} × {chip} in one node, a node has {settings.gpus_per_node}"
        return _verdict(host, "no", reason)
    if need.nodes > settings.num_nodes:
        return _verdict(host, "no", f"needs {need.nodes} nodes, has {settings.num_nodes}")
    status = queue.get("status")
    status = status if isinstance(status, Mapping) else {}
    state = str(status.get("state") or "Open")
    if state != "Open":
        return _verdict(host, "no", f"queue '{settings.queue}' is {state.lower()}")
    placement = Placement(host.name, chip, need.gpus, need.nodes)
    if not queue:
        reason = f"can queue in '{settings.queue}' (its use may not be read)"
        return _verdict(host, "queue", reason, placement=placement)
    if not need.gpus:
        return _verdict(host, "now", f"queue '{settings.queue}' is open", placement=placement)
    assert chip is not None
    total = settings.num_nodes * settings.gpus_per_node
    used = _quantity(_in(status.get("allocated"), settings.gpu_resource_key))
    free = max(total - used, 0)
    counts = {"free": {chip: free}, "total": {chip: total}}
    if free >= need.gpus * need.nodes:
        reason = f"{free} of {total} {chip} free in queue '{settings.queue}'"
        return _verdict(host, "now", reason, placement=placement, **counts)
    reason = f"{used} of {total} {chip} busy, can queue in '{settings.queue}'"
    return _verdict(host, "queue", reason, placement=placement, **counts)


def _verdict(host: Host, fit: Any, reason: str, **more: Any) -> Verdict:
    return Verdict(host.name, fit, reason, probed=time.time(), **more)


def _in(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _quantity(value: Any) -> int:
    """Return a Kubernetes quantity of whole things: `8`, `"8"`, `"8000m"`."""
    found = re.fullmatch(r"(\d{1,9})(m?)", str(value or 0), re.ASCII)
    if found is None:
        return 0
    return -(-int(found[1]) // 1000) if found[2] else int(found[1])


def _our_record(transport: Transport, handle: Handle) -> Seen | None:
    values = handle.values
    text = transport.run(_READ_EXIT, str(values["folder"])).text
    pairs = (line.partition("=") for line in text.splitlines())
    record = {key: value for key, mark, value in pairs if mark}
    cancelled = record.get("stop") == "cancel"
    if record.get("attempt") != str(values["attempt"]):
        return Seen("cancelled", None, None, time.time()) if cancelled else None
    return seen_by_exit(record, cancelled=cancelled)
