"""Call `kubectl` here, for the cluster that a host's settings name."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theseus.dispatch.inventory import Host, VolcanoSettings
from theseus.dispatch.providers.base import LaunchError

_TIMEOUT = 20.0


@dataclass(frozen=True)
class Kubernetes:
    """What `kubectl` answered; `status` is None when it did not answer in time."""

    status: int | None
    text: str
    complaint: str

    @property
    def missing(self) -> bool:
        """Whether the thing that was asked about is known not to be there."""
        return self.status not in {0, None} and "(NotFound)" in self.complaint

    @property
    def forbidden(self) -> bool:
        """Whether this user may not ask."""
        return self.status not in {0, None} and "(Forbidden)" in self.complaint

    @property
    def said(self) -> str:
        """Its complaint in one line."""
        if self.status is None:
            return "kubectl gave no answer in time"
        lines = [line.strip() for line in self.complaint.splitlines() if line.strip()]
        return lines[-1] if lines else f"kubectl ended with status {self.status}"

    def value(self) -> Mapping[str, Any]:
        """Return its JSON; an empty one for anything else."""
        try:
            found = json.loads(self.text) if self.status == 0 else {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def settings_of(host: Host) -> VolcanoSettings:
    """Return a host's settings.

    Raises
    ------
    LaunchError
        When it has none.
    """
    if host.volcano is None:
        msg = f"host '{host.name}': a Volcano host needs at least image and pvc_name"
        raise LaunchError(msg)
    return host.volcano


def kubectl_command(settings: VolcanoSettings, *, timeout: float | None = None) -> list[str]:
    """Return the program with the options that name the cluster and the namespace."""
    command = ["kubectl", f"--namespace={settings.namespace}"]
    if settings.context:
        command.append(f"--context={settings.context}")
    if settings.kubeconfig:
        path = os.path.expandvars(settings.kubeconfig)
        command.append(f"--kubeconfig={Path(path).expanduser()}")
    if timeout is not None:
        command.append(f"--request-timeout={max(int(timeout), 1)}s")
    return command


def kubectl(host: Host, *arguments: str, given: str = "", timeout: float = _TIMEOUT) -> Kubernetes:
    """Run `kubectl` and return what it answered.

    Raises
    ------
    LaunchError
        When it is not installed here.
    """
    command = [*kubectl_command(settings_of(host), timeout=timeout), *arguments]
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout + 5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Kubernetes(None, "", "")
    except OSError as error:
        reason = "is not installed here" if isinstance(error, FileNotFoundError) else str(error)
        msg = f"host '{host.name}': kubectl {reason}"
        raise LaunchError(msg) from error
    return Kubernetes(done.returncode, done.stdout, done.stderr)
