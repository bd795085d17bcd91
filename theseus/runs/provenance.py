"""Where a run comes from: who, with what code, on which machine, with which packages."""

from __future__ import annotations

import getpass
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import theseus
from theseus.runs.code import is_installed
from theseus.runs.processes import host_name

PACKAGES = ("jax", "flax", "optax", "numpy")

_ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\s*:\s*([^},\s]+)")
_LONG_ENOUGH = 4  # a shorter secret is looked for as a whole value only, never inside a text
_SECRET = re.compile(
    r"(?:^|_)(?:token|secret|password|passwd|credentials?|key|auth)(?:_|$)", re.IGNORECASE
)


def environment(job_class: type) -> dict[str, Any]:
    """Return the facts of `run.json` that do not depend on how the run is called."""
    commit, dirty = git_state(source_folder(job_class))
    return {
        "class": f"{job_class.__module__}:{job_class.__qualname__}",
        "by": user(),
        "host": host_name(),
        "provider": "local",
        "resources": {"cpus": _cpus()},
        "commit": commit,
        "dirty": dirty,
        **software(),
    }


def software() -> dict[str, Any]:
    """Return what runs here: theseus, Python, the system, and the packages that compute."""
    return {
        "version": theseus.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the git tree around `folder` and whether tracked files differ from it.

    Both are None when there is no tree, no git, or git does not answer within a few seconds.
    """
    # Without the optional lock a `git commit` of the user at the same moment is not disturbed.
    command = ["git", "--no-optional-locks", "-C", str(folder)]
    try:
        head = _ask([*command, "rev-parse", "HEAD"])
        if head is None:
            return None, None
        changes = _ask([*command, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.SubprocessError):
        return None, None
    return head, None if changes is None else bool(changes)


def without_secrets(raw: Any, resolved: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Return the resolved configuration with secrets of the environment left as they were written.

    A value such as `${oc.env:HF_TOKEN}` is resolved where it is used, and stays that text where it
    is written down.

    Parameters
    ----------
    raw, resolved
        The configuration as plain values, before and after resolving.
    environ
        The environment variables.
    """
    secrets = {
        environ[name]: f"${{oc.env:{name}}}"
        for name in _environment_names(raw)
        if _SECRET.search(name) and environ.get(name)
    }
    return _replaced(resolved, secrets) if secrets else resolved


def _environment_names(value: Any) -> set[str]:
    if isinstance(value, str):
        return set(_ENVIRONMENT.findall(value))
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return set().union(*map(_environment_names, value))
    return set()


def _replaced(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _replaced(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, secrets) for item in value]
    for secret, written in secrets.items():
        if str(value) == secret:
            return written
        if isinstance(value, str) and len(secret) >= _LONG_ENOUGH:
            value = value.replace(secret, written)
    return value


def source_folder(job_class: type) -> Path:
    """Return the folder of the job's own source, or the working folder when it is installed."""
    module = sys.modules.get(job_class.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and not is_installed(Path(file)):
        return Path(file).resolve().parent
    return Path.cwd()


def _ask(command: list[str]) -> str | None:
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=5,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return answer.stdout.strip() if answer.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def user() -> str:
    """Return who runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without an entry for this user id
        return str(os.getuid())


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
