"""Reach the volume of a Volcano host: a shell in a small pod that holds it, made when there is none."""

from __future__ import annotations

import getpass
import hashlib
import json
import time

from theseus.dispatch.inventory import Host
from theseus.dispatch.providers.base import LaunchError
from theseus.dispatch.providers.kubectl import kubectl, kubectl_command, settings_of
from theseus.dispatch.providers.volcano_manifest import files_pod_manifest
from theseus.dispatch.transport.base import TransportError
from theseus.dispatch.transport.framing import COMMAND
from theseus.dispatch.transport.process import ChildProcess

_WAIT = 180.0  # for an image to be pulled
_FRESH = 5.0  # seconds for which a pod that was seen is taken to be there


class PodProcess(ChildProcess):
    """A shell in the pod."""

    def lost(self) -> bool:
        """Return whether it was the connection that ended: the frame of an answer is missing then."""
        return self._ended(2.0) and self._child.returncode != 0


class PodConnection:
    """A pod that runs, in which programs can be started."""

    def __init__(self, host: Host, pod: str) -> None:
        self._host, self._pod = host, pod
        self._seen = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether the pod runs, asked anew after a while."""
        if time.monotonic() - self._seen > _FRESH:
            try:
                if _phase(self._host, self._pod) != "Running":
                    return False
            except (TransportError, LaunchError):
                return False
            self._seen = time.monotonic()
        return True

    def start(self, timeout: float) -> ChildProcess:
        """Start a `/bin/sh` that reads its input, in the pod."""
        command = kubectl_command(settings_of(self._host))
        return PodProcess([*command, "exec", "--stdin", self._pod, "--", *COMMAND])

    def close(self) -> None:
        """Leave the pod to the next program; it ends by itself after a day."""


def open_pod(host: Host, timeout: float) -> PodConnection:
    """Return a connection to the host's volume, making the pod when it is not there.

    Raises
    ------
    TransportError
        When the pod does not come to run; the message says what Kubernetes says about it.
    """
    name = pod_name(host)
    try:
        phase = _phase(host, name)
        if phase in {"Succeeded", "Failed"}:
            kubectl(host, "delete", "pod", name, "--ignore-not-found", "--wait=true", timeout=60)
            phase = None
        if phase is None:
            manifest = json.dumps(files_pod_manifest(name, settings_of(host)))
            made = kubectl(host, "create", "--filename=-", given=manifest)
            if made.status != 0 and "(AlreadyExists)" not in made.complaint:
                raise TransportError(host.name, "unreachable", made.said)
        if phase != "Running":
            _await(host, name, max(timeout, _WAIT))
    except LaunchError as error:
        message = str(error).removeprefix(f"host '{host.name}': ")
        raise TransportError(host.name, "unreachable", message) from error
    return PodConnection(host, name)


def pod_name(host: Host) -> str:
    """Return the name of this user's pod for what the host's settings say."""
    settings = settings_of(host)
    parts = (getpass.getuser(), settings.pvc_name, settings.pvc_mount_path, settings.image)
    return f"theseus-files-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def _phase(host: Host, pod: str) -> str | None:
    """Return the pod's phase; None when it is not there."""
    answer = kubectl(host, "get", "pod", pod, "--output=json")
    if answer.missing:
        return None
    if answer.status != 0:
        raise TransportError(host.name, "unreachable", answer.said)
    status = answer.value().get("status")
    return str(status.get("phase") or "Pending") if isinstance(status, dict) else "Pending"


def _await(host: Host, pod: str, seconds: float) -> None:
    ready = kubectl(
        host,
        "wait",
        f"pod/{pod}",
        "--for=condition=Ready",
        f"--timeout={int(seconds)}s",
        timeout=seconds + 5,
    )
    if ready.status == 0:
        return
    reason = "its image may be slow to pull, or no node has room"
    message = (
        f"the pod for files does not run ({ready.said}): {reason}; see `kubectl describe pod {pod}`"
    )
    raise TransportError(host.name, "unreachable", message)
