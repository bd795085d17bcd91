"""The inventory: which machines there are, where their folders lie, and what they are asked for.

    clusters:
      lab:
        root: /home/ada/theseus
    hosts:
      box:
        ssh: box.example.org
        cluster: lab
        type: plain
        chips: {h100: 8}

The file is `-d FILE`, `$THESEUS_CONFIG`, `$XDG_CONFIG_HOME/theseus/config.yaml` or
`~/.theseus.yaml`, whichever is named or there first. Without one there is a single host: `local`,
this machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from theseus.dispatch.secrets import Secret
from theseus.errors import UserError, did_you_mean

HostType = Literal["local", "plain", "slurm", "volcano"]
TransportName = Literal["auto", "paramiko", "openssh", "local"]
Environment = Mapping[str, "str | Secret"]


class InventoryError(UserError):
    """Something in the inventory that cannot be meant; the message names file, line and remedy."""


@dataclass(frozen=True)
class Cluster:
    """Folders and environment that several machines share.

    Folders are as written: they may hold `~`, `$HOME` or `$SCRATCH`, which the host resolves.

    Attributes
    ----------
    root
        Data and runs: what is given to `quick` there.
    work
        Where code and environments are kept.
    log
        Where logs are put beside the run's own folder; None: there alone.
    data, checkpoints, results
        Where these lie when not under `root`.
    share
        A folder that every node of the cluster sees, when `work` is on each node's own disk.
    env
        Environment variables of every run there; those of a host come on top.
    """

    name: str
    root: str
    work: str
    log: str | None = None
    data: str | None = None
    checkpoints: str | None = None
    results: str | None = None
    share: str | None = None
    env: Environment = field(default_factory=dict)


@dataclass(frozen=True)
class SlurmSettings:
    """What is asked of SLURM beside chips; None leaves a choice to the cluster.

    Attributes
    ----------
    partitions, cpu_partitions
        Those to try, in order, for runs with chips and without; empty: those that the cluster has.
    mem
        Main memory per node for runs that ask for none, such as `64G`; `0` is all of it.
    time
        The time limit as SLURM writes it: `2:00:00`, `14-0`.
    exclude
        Nodes never to be used, as SLURM writes lists of them: `n[1-4]`.
    constraint
        Features that a node must have.
    extra
        Further options of `sbatch`, such as `--reservation=maintenance`.
    """

    partitions: tuple[str, ...] = ()
    cpu_partitions: tuple[str, ...] = ()
    account: str | None = None
    qos: str | None = None
    mem: str | None = None
    time: str | None = None
    exclude: tuple[str, ...] = ()
    constraint: str | None = None
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class VolcanoSettings:
    """One pool of equal nodes behind a Volcano queue.

    Attributes
    ----------
    image, pvc_name, pvc_mount_path
        The container, the claim that holds code and data, and where it is mounted.
    num_nodes, gpus_per_node
        How large the pool is.
    gpu_resource_key
        What Kubernetes calls a GPU there.
    cpu, memory, shm_size
        Quantities per pod as Kubernetes writes them: `8`, `500m`, `64Gi`.
    context, kubeconfig
        Which Kubernetes cluster `kubectl` talks to; None: its current one.
    rdma
        Resources for the network between nodes, name → count per pod.
    """

    image: str
    pvc_name: str
    pvc_mount_path: str = "/workspace"
    namespace: str = "default"
    queue: str = "default"
    num_nodes: int = 1
    gpus_per_node: int = 0
    gpu_resource_key: str = "nvidia.com/gpu"
    cpu: str | None = None
    memory: str | None = None
    shm_size: str | None = None
    service_account: str | None = None
    priority_class: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str | int], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    context: str | None = None
    kubeconfig: str | None = None
    rdma: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Host:
    """A machine, or the front door of many.

    Attributes
    ----------
    ssh
        What `ssh` is called with; None when commands run on this machine.
    chips
        Canonical name → how many there are. Empty: what is found when the host is looked at.
    uv_groups
        Dependency groups that `uv sync` installs there.
    python, setup
        A prepared Python in place of `uv sync`, and shell lines that come before it.
    """

    name: str
    type: HostType
    cluster: Cluster
    ssh: str | None = None
    chips: Mapping[str, int] = field(default_factory=dict)
    uv_groups: tuple[str, ...] = ()
    env: Environment = field(default_factory=dict)
    python: str | None = None
    setup: str | None = None
    transport: TransportName = "auto"
    slurm: SlurmSettings | None = None
    volcano: VolcanoSettings | None = None

    @property
    def environment(self) -> dict[str, str | Secret]:
        """The environment of a run: the cluster's, with the host's own on top."""
        return {**self.cluster.env, **self.env}

    @property
    def queues(self) -> tuple[str, ...]:
        """What a run may wait in there: the partitions that are named, or Volcano's queue."""
        if self.slurm is not None:
            return tuple(dict.fromkeys((*self.slurm.partitions, *self.slurm.cpu_partitions)))
        return (self.volcano.queue,) if self.volcano is not None else ()


@dataclass(frozen=True)
class Inventory:
    """All hosts that a run can go to.

    Attributes
    ----------
    hosts, clusters
        In the order of the file.
    priority
        Every host, the most wanted first: those of `priority:`, then the others.
    gres_mapping
        SLURM's GRES type, as the cluster spells it → canonical chip.
    path
        The file; None when there is none.
    names_hosts
        Whether the file names hosts; else there is this machine alone.
    """

    hosts: Mapping[str, Host]
    clusters: Mapping[str, Cluster]
    priority: tuple[str, ...]
    gres_mapping: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    names_hosts: bool = True

    @property
    def private(self) -> tuple[Path, ...]:
        """What is never sent anywhere: the file, which may hold secrets, and the state folder."""
        return (state_folder(), *([self.path] if self.path is not None else []))

    def host(self, name: str) -> Host:
        """Return the host called `name`.

        Raises
        ------
        InventoryError
            When there is none; the message names the nearest one.
        """
        found = self.hosts.get(name)
        if found is None:
            where = f"{self.path} has" if self.path else "without an inventory there is"
            msg = f"{where} no host '{name}'{did_you_mean(name, self.hosts)}"
            raise InventoryError(f"{msg} (known: {', '.join(self.hosts) or 'none'})")
        return found


def inventory_path(given: Path | None = None) -> Path | None:
    """Return the file to read: the one that is named, or the first that is there, or None.

    Raises
    ------
    InventoryError
        When a file is named that is not there.
    """
    if given is not None:
        return _named(given, "")
    variable = os.environ.get("THESEUS_CONFIG")
    if variable:
        return _named(Path(variable), " ($THESEUS_CONFIG)")
    return next((path for path in _usual_places() if path.exists()), None)


def path_to_write(given: Path | None = None) -> Path:
    """Return the file that an entry is written to: the one in use, else `~/.theseus.yaml`."""
    named = given or os.environ.get("THESEUS_CONFIG")
    if named:
        return Path(named).expanduser()
    return inventory_path() or _home() / ".theseus.yaml"


def load_inventory(given: Path | None = None, *, root: Path | None = None) -> Inventory:
    """Return what the inventory file says; without one, a single host `local`.

    Parameters
    ----------
    given
        The file, in place of those that are looked for.
    root
        The folder of data and runs on this machine, for `local` hosts that name no cluster.

    Raises
    ------
    InventoryError
        With every mistake in the file: its line, and the nearest word that would be right.
    """
    path = inventory_path(given)
    here = local_cluster(root)
    if path is None:
        return _only_local(here)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        msg = f"{path} cannot be read: {reason}"
        raise InventoryError(msg) from error
    return parse_inventory(text, path, here)


def parse_inventory(text: str, path: Path, here: Cluster | None = None) -> Inventory:
    """Return what the text of an inventory says; `path` is for messages."""
    from theseus.dispatch._inventory_schema import read  # YAML is loaded when there is some

    here = here or local_cluster()
    return read(text, path, here) or replace(_only_local(here), path=path)


def local_cluster(root: Path | None = None) -> Cluster:
    """Return the folders of this machine, for `local` hosts that name no cluster."""
    state = state_folder()
    return Cluster("local", root=str(root or state / "root"), work=str(state / "work"))


def state_folder() -> Path:
    """Return the folder in which programs of this user keep their state, for theseus."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "theseus"
    named = os.environ.get("XDG_STATE_HOME", "")
    # The specification has relative paths ignored.
    base = Path(named) if named.startswith("/") else _home() / ".local" / "state"
    return base / "theseus"


def _only_local(here: Cluster) -> Inventory:
    # Who has named no host has prepared none: what runs here is there, with all that it has.
    host = Host("local", "local", here, transport="local", python=sys.executable or None)
    return Inventory({"local": host}, {"local": here}, ("local",), names_hosts=False)


def _usual_places() -> list[Path]:
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if named.startswith("/") else _home() / ".config"
    return [base / "theseus" / "config.yaml", _home() / ".theseus.yaml"]


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        msg = "this account has no home folder: name the inventory with -d FILE or $THESEUS_CONFIG"
        raise InventoryError(msg) from error


def _named(path: Path, how: str) -> Path:
    path = path.expanduser()
    if not path.exists():
        beside = [other.name for other in path.parent.glob("*.y*ml")]
        msg = f"there is no inventory {path}{how}{did_you_mean(path.name, beside)}"
        raise InventoryError(msg)
    return path
