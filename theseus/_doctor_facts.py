"""What `theseus doctor` looks at: gathered here as plain facts, judged elsewhere.

Everything that could be slow or start something is asked of another process, with a time limit: JAX
is not imported here, and no device is touched by this process. No host is contacted.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from theseus.errors import UserError

_PACKAGE = "theseus-jupyter"
_SHOWN = ("ipykernel", "ipython", "jupyterlab", "anywidget", "ipywidgets", "jax", "jaxlib", "flax")
_SECONDS = 60.0

# Runs in the Python of the Jupyter server, which may have nothing of ours.
_SERVER = """
import importlib.metadata as m, json, os, sys
found = {}
for name in ("jupyterlab", "notebook", "jupyter_server", "anywidget", "jupyterlab_widgets"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
extensions = {}
try:
    from jupyter_core.paths import jupyter_path
    for folder in reversed(jupyter_path("labextensions")):
        for name in ("anywidget", "@jupyter-widgets/jupyterlab-manager", "theseus-jupyter"):
            try:
                with open(os.path.join(folder, name, "package.json")) as file:
                    extensions[name] = json.load(file)["version"]
            except (OSError, ValueError, KeyError): pass
except ImportError: pass
print(json.dumps({"prefix": sys.prefix, "packages": found, "extensions": extensions}))
"""
_JAX = """
import json, jax
devices = jax.devices()
print(json.dumps({"backend": jax.default_backend(), "devices": [d.device_kind for d in devices]}))
"""


@dataclass(frozen=True)
class Server:
    """The environment that Jupyter runs in.

    Attributes
    ----------
    prefix
        Its folder.
    packages, extensions
        Name → version, of packages and of what is installed for the browser.
    """

    prefix: str
    packages: Mapping[str, str] = field(default_factory=dict)
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Jax:
    """What JAX said in a process of its own; `error` when it did not start."""

    backend: str = ""
    devices: Sequence[str] = ()
    error: str = ""


@dataclass(frozen=True)
class HostFacts:
    """A host of the inventory; `key` is whether its key is known, None when that does not matter."""

    name: str
    type: str
    ssh: str = ""
    transport: str = "auto"
    key: bool | None = None
    lookup: str = ""


@dataclass(frozen=True)
class Facts:
    """All that is judged.

    Attributes
    ----------
    packages
        Name → installed version, or None.
    unmet
        Requirements of theseus that are not met: name → (at least, installed or None).
    in_kernel
        Whether this process is a notebook's kernel.
    server
        The environment of Jupyter; None when none was found.
    inventory, inventory_error
        The file, and what is wrong with it.
    ssh
        The path of the program `ssh`, or None.
    gpus
        What `nvidia-smi` lists.
    free
        Folder → free bytes, None where it cannot be written.
    """

    version: str
    python: str
    executable: str
    prefix: str
    system: str
    packages: Mapping[str, str | None]
    unmet: Mapping[str, tuple[str, str | None]]
    in_kernel: bool
    server: Server | None
    inventory: str | None
    inventory_error: str
    hosts: Sequence[HostFacts]
    ssh: str | None
    gpus: Sequence[str]
    jax: Jax
    jax_platforms: str
    free: Mapping[str, int | None]

    def plain(self) -> dict[str, Any]:
        """Return them as plain values."""
        return asdict(self)


def gather() -> Facts:
    """Look at this machine."""
    from concurrent.futures import ThreadPoolExecutor

    import theseus

    in_kernel = "ipykernel" in sys.modules and os.environ.get("JPY_PARENT_PID") is not None
    with ThreadPoolExecutor(max_workers=3) as pool:
        asked_jax = pool.submit(_jax)
        asked_server = pool.submit(_server, in_kernel)
        asked_gpus = pool.submit(_gpus)
        inventory, trouble, hosts = _inventory()
        return Facts(
            theseus.__version__,
            platform.python_version(),
            sys.executable,
            sys.prefix,
            f"{platform.system()} {platform.machine()}",
            {name: _version(name) for name in _SHOWN},
            _unmet(),
            in_kernel,
            asked_server.result(),
            inventory,
            trouble,
            hosts,
            shutil.which("ssh"),
            asked_gpus.result(),
            asked_jax.result(),
            os.environ.get("JAX_PLATFORMS", ""),
            _free(),
        )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _unmet() -> dict[str, tuple[str, str | None]]:
    """Return what theseus requires and this environment has not, or has too old."""
    try:
        required = importlib.metadata.requires(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return {}  # run from its folder, without being installed
    found = {}
    for requirement in required:
        matched = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement.replace(" ", ""))
        if matched is None:
            continue  # those of extras have a condition behind them
        name, least = matched.groups()
        version = _version(name)
        if version is None or _numbers(version) < _numbers(least):
            found[name] = (least, version)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _said(words: Sequence[str], seconds: float = _SECONDS, **environment: str) -> tuple[str, str]:
    """Return what a program printed, and its last words when it failed."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env={**os.environ, **environment},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer in {seconds:g} s"
    except OSError as error:
        return "", str(error)
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return done.stdout, last if done.returncode else ""


def _jax() -> Jax:
    # A GPU's memory is not taken from the runs that are there.
    out, error = _said([sys.executable, "-c", _JAX], XLA_PYTHON_CLIENT_PREALLOCATE="false")
    told = _json(out)
    if told is None:
        return Jax(error=error or "JAX did not start")
    return Jax(str(told["backend"]), [str(one) for one in told["devices"]])


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    out, _ = _said(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], 20.0)
    return [line.strip() for line in out.splitlines() if line.strip()]


def _server(in_kernel: bool) -> Server | None:
    python = _server_python(in_kernel)
    if python is None:
        return None
    out, _ = _said([python, "-c", _SERVER], 30.0)
    told = _json(out)
    if told is None:
        return None
    return Server(str(told["prefix"]), dict(told["packages"]), dict(told["extensions"]))


def _server_python(in_kernel: bool) -> str | None:
    """Return the Python of the Jupyter that has started this kernel, or that a shell would start."""
    if in_kernel:
        parent = os.environ.get("JPY_PARENT_PID", "")
        first = _program(parent) if parent.isdigit() else ""
        return first if "python" in Path(first).name and Path(first).is_absolute() else None
    beside = Path(sys.executable).parent / "jupyter-lab"
    program = beside if beside.is_file() else shutil.which("jupyter-lab")
    if program is None:
        return None
    try:
        first = Path(program).read_bytes()[:500].split(b"\n")[0].decode("utf-8", "replace")
    except OSError:
        return None
    python = first.removeprefix("#!").strip().split(" ")[0]
    return python if first.startswith("#!") and "python" in Path(python).name else None


def _program(process: str) -> str:
    """Return the program of a process, as it was called."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].decode()
    except (OSError, UnicodeDecodeError):  # no such folder on macOS
        out, _ = _said(["ps", "-o", "args=", "-p", process], 10.0)
        return (out.split() or [""])[0]


def _json(text: str) -> dict[str, Any] | None:
    try:
        told = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return told if isinstance(told, dict) else None


def _inventory() -> tuple[str | None, str, list[HostFacts]]:
    from theseus.dispatch.inventory import inventory_path, load_inventory

    path = None
    try:
        path = inventory_path()
        known = load_inventory()
    except UserError as error:
        return (None if path is None else str(path)), str(error), []
    hosts = [_host(known.hosts[name]) for name in known.priority]
    return (None if path is None else str(path)), "", hosts


def _host(host: Any) -> HostFacts:
    from theseus.dispatch.transport.known_hosts import entries
    from theseus.dispatch.transport.ssh_config import read_settings

    if host.ssh is None:
        return HostFacts(host.name, host.type)
    plain = HostFacts(host.name, host.type, host.ssh, host.transport)
    try:
        settings = read_settings(host.name, host.ssh)
    except UserError as error:
        return HostFacts(**{**asdict(plain), "lookup": str(error)})
    if settings.strict in {"no", "off", "accept-new"}:
        return plain
    files = [*settings.known_hosts, *settings.global_known_hosts]
    known = any(True for _ in entries(settings.key_name, files))
    return HostFacts(**{**asdict(plain), "key": known})


def _free() -> dict[str, int | None]:
    from theseus._job_keys import cache_folder
    from theseus.dispatch.inventory import state_folder

    found: dict[str, int | None] = {}
    for folder in (Path.cwd(), state_folder(), cache_folder()):
        there = next(one for one in (folder, *folder.parents) if one.exists())
        writable = os.access(there, os.W_OK | os.X_OK)
        found[str(folder)] = shutil.disk_usage(there).free if writable else None
    return found
