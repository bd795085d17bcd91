"""What holds for every test: folders of its own, no network beyond this machine, JAX on the CPU.

Everything here is set before a test imports anything, and is inherited by child processes.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

_HOME = Path(tempfile.mkdtemp(prefix="theseus-tests-"))

os.environ |= {
    # Nothing is read from the user's own folders, and nothing is left in them.
    "HOME": str(_HOME),
    "XDG_CACHE_HOME": str(_HOME / "cache"),
    "XDG_CONFIG_HOME": str(_HOME / "config"),
    "XDG_DATA_HOME": str(_HOME / "data"),
    "XDG_STATE_HOME": str(_HOME / "state"),
    "HF_HOME": str(_HOME / "huggingface"),
    "IPYTHONDIR": str(_HOME / "ipython"),
    "JUPYTER_CONFIG_DIR": str(_HOME / "jupyter/config"),
    "JUPYTER_DATA_DIR": str(_HOME / "jupyter/data"),
    "JUPYTER_RUNTIME_DIR": str(_HOME / "jupyter/runtime"),
    "MPLCONFIGDIR": str(_HOME / "matplotlib"),
    "JUPYTER_PLATFORM_DIRS": "1",
    "MPLBACKEND": "agg",
    # A commit in a test's repository needs an author.
    "GIT_AUTHOR_NAME": "A test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "A test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
    "GIT_CONFIG_NOSYSTEM": "1",
    # The hub's libraries answer at once, from files, that there is no network.
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "JAX_PLATFORMS": "cpu",
    # JAX sets these itself when it is imported, which any test may be the first to do.
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    # Many tests compile the same small step: workers (which inherit this from the process that
    # started them) and child processes share what was compiled.
    "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", f"{_HOME}/compiled"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # Compiling takes most of a test's time and the compiled code hardly any: optimise little.
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
}
for name in ("JPY_SESSION_NAME", "TIKTOKEN_CACHE_DIR", "SSH_AUTH_SOCK"):
    os.environ.pop(name, None)

# A test that compiles JAX code is slow the first time: a deadline would measure that.
hypothesis.settings.register_profile("theseus", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("theseus")


# The files that take more than a minute each, the longest first.
_LONGEST = (
    "training/test_mesh.py",
    "dispatch/test_submit_slurm.py",
    "training/test_recovery.py",
    "test_seeds.py",
    "browser/test_panel.py",
    "dispatch/test_tutorial.py",
    "dispatch/test_slurm.py",
    "training/test_trainer.py",
    "notebook/test_kernels.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker waits for the last file of another."""

    def order(item: pytest.Item) -> tuple[int, bool]:
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        place = _LONGEST.index(file) if file in _LONGEST else len(_LONGEST)
        return place, item.get_closest_marker("slow") is None

    items.sort(key=order)


def pytest_unconfigure() -> None:
    """Remove the session's own folders."""
    shutil.rmtree(_HOME, ignore_errors=True)


class NetworkBlockedError(ConnectionRefusedError):
    """A test tried to reach something that is not on this machine."""


_attempts: list[str] = []


def _watch_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what would leave this machine; an audit hook sees every socket made by Python."""
    if event in {"socket.connect", "socket.sendto"}:
        connection, address = arguments
        if connection.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        host = address[0]
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = arguments[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if not _is_local(host):
        _attempts.append(f"{event} {host}")
        msg = f"tests do not leave this machine: {event} {host}"
        raise NetworkBlockedError(msg)


def _is_local(host: str | None) -> bool:
    if host in {None, "", "localhost", socket.gethostname()}:
        return True
    try:
        address = ipaddress.ip_address(str(host).split("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


sys.addaudithook(_watch_network)


@pytest.fixture(autouse=True)
def network_attempts() -> Iterator[list[str]]:
    """Fail the test when it tried to leave this machine, even if the error was swallowed.

    A test that expects the attempt asks for this fixture, looks at the list and clears it.
    """
    _attempts.clear()
    yield _attempts
    if _attempts:
        pytest.fail(f"tried to reach another machine: {', '.join(_attempts)}")


@pytest.fixture(autouse=True)
def _environment_stays() -> Iterator[None]:
    """Fail the test that leaves the environment changed: processes of later tests inherit it."""
    before = _environment()
    yield
    after = _environment()
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    os.environ |= before
    for name in after.keys() - before.keys():
        del os.environ[name]
    assert not changed, f"left changed in the environment: {sorted(changed)}"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder for runs and data whose name is as awkward as a user's may be."""
    folder = tmp_path / "the root's folder"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the top folder of the repository."""
    return Path(__file__).resolve().parents[1]
