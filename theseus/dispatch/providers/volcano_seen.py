"""What became of a Volcano job, from its pods; the job's own phase is a hint. Pure and total.

A job may be called Running while its pods wait, and stay Pending after they have ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theseus.dispatch.providers.base import Seen, State
from theseus.dispatch.providers.endings import exit_text

_PHASES: Mapping[str, State] = {
    "Pending": "queued",
    "Inqueue": "queued",
    "Restarting": "queued",
    "Running": "running",
    "Completing": "running",
    "Completed": "finished",
    "Failed": "failed",
    "Terminated": "failed",
    "Terminating": "failed",
    "Aborted": "cancelled",
    "Aborting": "cancelled",
}
_STUCK = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "CrashLoopBackOff",
}


@dataclass(frozen=True)
class Pod:
    """One pod: its phase, how its container ended, and what it waits for."""

    phase: str
    status: int | None
    waits: str | None


def pods_of(listed: Mapping[str, Any]) -> tuple[Pod, ...]:
    """Return the pods in the output of `kubectl get pods -o json`."""
    return tuple(_pod(_mapping(item.get("status"))) for item in _mappings(listed.get("items")))


def phase_of(job: Mapping[str, Any]) -> str:
    """Return the phase of a job; nothing when it has none yet."""
    return str(_mapping(_mapping(job.get("status")).get("state")).get("phase") or "")


def seen(phase: str, pods: Sequence[Pod], nodes: int) -> Seen | None:
    """Return the state, or None when neither pods nor phase say: our own record must."""
    restarting = phase in {"Restarting", "Pending", "Inqueue"} and phase != ""
    failed = next((pod for pod in pods if pod.phase == "Failed"), None)
    if failed and not restarting:
        status = failed.status
        why = failed.waits or ("its pod failed" if status is None else exit_text(status))
        return _answer("cancelled" if phase in {"Aborted", "Aborting"} else "failed", why)
    if pods and all(pod.phase == "Succeeded" for pod in pods) and len(pods) >= nodes:
        return _answer("finished", None)
    alive = [pod for pod in pods if pod.phase in {"Running", "Succeeded"}]
    if pods and len(alive) == len(pods) and len(pods) >= nodes:
        return _answer("running", None)
    if any(pod.phase in {"Pending", "Running", "Succeeded", "Unknown"} for pod in pods):
        if any(pod.phase == "Unknown" for pod in pods):
            return _answer("unknown", "the node of a pod does not answer")
        waits = next((pod.waits for pod in pods if pod.waits), None)
        missing = f"{len(alive)} of {nodes} pods run"
        return _answer("queued", waits or missing)
    hint = _PHASES.get(phase)
    return _answer("queued", phase.lower()) if hint == "queued" else None


def seen_by_phase(phase: str) -> Seen | None:
    """Return what the phase of an ended job says, when its pods and our record are gone."""
    hint = _PHASES.get(phase)
    if hint in {"finished", "failed", "cancelled"}:
        return _answer(hint, None if hint == "finished" else f"Volcano calls it {phase.lower()}")
    return None


def _pod(status: Mapping[str, Any]) -> Pod:
    ended = waits = None
    for container in _mappings(status.get("containerStatuses")):
        state = _mapping(container.get("state"))
        code = _mapping(state.get("terminated")).get("exitCode")
        reason = _mapping(state.get("terminated")).get("reason")
        ended = code if isinstance(code, int) else ended
        if reason == "OOMKilled":
            waits = "it used more memory than its pod may have"
        waiting = _mapping(state.get("waiting"))
        if waiting.get("reason") in _STUCK:
            waits = f"{waiting['reason']}: {waiting.get('message') or 'see kubectl describe pod'}"
    for condition in _mappings(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            waits = waits or str(condition.get("message") or condition.get("reason") or "") or None
    if status.get("reason") == "Evicted":
        waits = f"evicted: {status.get('message') or 'no reason given'}"
    return Pod(str(status.get("phase") or "Pending"), ended, waits)


def _answer(state: State, reason: str | None) -> Seen:
    return Seen(state, reason, None, time.time())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
