"""A real SLURM on loopback: munge, a controller and two nodes with fake GPUs.

    def test_something(slurm):
        shell = Shell(**slurm.environment)

Everything lies in a folder of its own, listens on 127.0.0.1 and ends with the session.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = "slurm-wlm slurm-client slurmctld slurmd munge"
NODES = ("n1", "n2")
GPUS = 4
CPUS = 8
MEMORY = 8000

# NoInAddrAny keeps every daemon on loopback. config_overrides lets a small machine pretend to be
# a large one. cred_expire makes a requeued job eligible in seconds, not minutes. The scheduler is
# asked to look at once: its usual pauses would be most of a test's time.
_CONFIG = """\
ClusterName=testing
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
KillWait=2
GresTypes=gpu
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs={cpus} RealMemory={memory} Gres=gpu:h100:{gpus}
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs={cpus} RealMemory={memory} Gres=gpu:h100:{gpus}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=60 DefMemPerCPU=100
PartitionName=cpu Nodes=n2 MaxTime=60 DefMemPerCPU=100
"""
# Character devices that are everywhere; regular files would leave CUDA_VISIBLE_DEVICES empty.
_GRES = "NodeName=n[1-2] Name=gpu Type=h100 File=/dev/null,/dev/zero,/dev/full,/dev/random\n"


@dataclass(frozen=True)
class Slurm:
    """A running cluster; its clients find it by `environment`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def client(self, *command: str, check: bool = True) -> str:
        """Run one of SLURM's programs and return what it prints."""
        done = subprocess.run(
            command,
            env=dict(os.environ) | self.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def empty(self) -> None:
        """Cancel all jobs, and wait until none is left."""
        self.client("scancel", "--me")
        _wait(self._idle)

    def _idle(self) -> bool:
        jobs = self.client("squeue", "-h", "-a", "-o", "%i").split()
        nodes = self.client("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T").split()
        return not jobs and nodes == ["idle", "idle"]


@contextmanager
def running() -> Iterator[Slurm]:
    """Start a cluster and stop it."""
    # A short path: a socket's may have no more than 107 bytes.
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # clients of other users reach the socket and the configuration
        _munge(folder, stack)
        controller, first, second = _free_ports(3)
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text(
            _CONFIG.format(
                folder=folder,
                user=user.strip(),
                controller=controller,
                first=first,
                second=second,
                cpus=CPUS,
                memory=MEMORY,
                gpus=GPUS,
            )
        )
        (folder / "gres.conf").write_text(_GRES)
        cluster = Slurm(folder)
        _start(stack, cluster, "slurmctld", "-D", "-c")
        for node in NODES:
            _start(stack, cluster, "slurmd", "-D", "-N", node)
        _wait(cluster._idle, lambda: _logs(folder))
        stack.callback(cluster.empty)
        yield cluster


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Slurm]:
    """One cluster for all tests of a session."""
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if not _program(name)]
    if missing:
        text = f"{', '.join(missing)} not installed: apt-get install {PACKAGES}"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    with running() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_cluster: Slurm) -> Iterator[Slurm]:
    """The cluster, without any job before and after the test."""
    yield slurm_cluster
    slurm_cluster.empty()


def _munge(folder: Path, stack: ExitStack) -> None:
    private = folder / "private"  # munged wants its key where nobody else can look
    private.mkdir(mode=0o700)
    key = private / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = [f"--{name}-file={private / name}" for name in ("pid", "log", "seed")]
    process = subprocess.Popen(
        [
            _program("munged") or "munged",
            "--foreground", f"--key-file={key}", f"--socket={folder / 'munge.sock'}", *files,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    stack.callback(_end, process)
    _wait((folder / "munge.sock").exists)


def _start(stack: ExitStack, cluster: Slurm, name: str, *options: str) -> None:
    process = subprocess.Popen(
        [_program(name) or name, *options],
        env=dict(os.environ) | cluster.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait(condition, explain=lambda: "", seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"SLURM: waited in vain. {explain()}"
        time.sleep(0.05)


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text("utf-8", "replace")[-2000:] for path in folder.glob("*.log"))
