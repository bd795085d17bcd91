"""What may stand in an inventory, key by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from theseus.dispatch._inventory_kinds import (
    CONTROL,
    SLURM_KEYS,
    VOLCANO_KEYS,
    folder,
    slurm,
    volcano,
    word,
)
from theseus.dispatch._inventory_yaml import Item, Mistakes, compose
from theseus.dispatch.inventory import (
    Cluster,
    Host,
    HostType,
    Inventory,
    TransportName,
)
from theseus.errors import did_you_mean
from theseus.hardware.chips import UnknownChipError, chip, chip_names

TYPES = ("local", "plain", "slurm", "volcano")
TRANSPORTS = ("auto", "paramiko", "openssh")
CLUSTER_KEYS = ("root", "work", "log", "data", "checkpoints", "results", "share", "env")
COMMON_KEYS = ("cluster", "type", "chips", "uv_groups", "env", "python", "setup")
SSH_KEYS = ("ssh", "transport")
HOST_KEYS = {
    "local": COMMON_KEYS,
    "plain": (*SSH_KEYS, *COMMON_KEYS),
    "slurm": (*SSH_KEYS, *COMMON_KEYS, *SLURM_KEYS),
    "volcano": (*SSH_KEYS, *COMMON_KEYS, *VOLCANO_KEYS),
}

# Of uv's own groups here: one machine has one kind of hardware.
_HARDWARE_GROUPS = ("cpu", "cuda12", "cuda13", "tpu")
_GROUP = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)


def read(text: str, path: Path, here: Cluster) -> Inventory | None:
    """Return the inventory in a text, or None when it says nothing.

    Raises
    ------
    InventoryError
        With all mistakes.
    """
    root = compose(text, path)
    if root is None:
        return None
    mistakes = Mistakes(path)
    top = Item(root, "", mistakes).fields(("clusters", "hosts", "priority", "gres_mapping"))
    clusters = _each(top.get("clusters"), "mycluster: {root: ~/theseus}", _cluster)
    hosts = _each(
        top.get("hosts"),
        "mybox: {ssh: mybox, cluster: mycluster}",
        lambda name, item: _host(name, item, clusters, here),
    )
    priority = _priority(top.get("priority"), hosts)
    mapping = _gres_mapping(top.get("gres_mapping"))
    mistakes.tell()
    known = {name: host for name, host in hosts.items() if host is not None}
    names_hosts = bool(known)
    if not known:
        local = clusters.get(here.name) or here
        known, priority = {"local": Host("local", "local", local, transport="local")}, ("local",)
    found = {name: cluster for name, cluster in clusters.items() if cluster is not None}
    for host in known.values():
        found.setdefault(host.cluster.name, host.cluster)
    return Inventory(known, found, priority, mapping, path, names_hosts)


def _each(item: Item | None, example: str, make: Callable[[str, Item], Any]) -> dict[str, Any]:
    """Return name → what was made; None for what could not be, so that its name is known."""
    if item is None:
        return {}
    return {
        name: make(name, entry)
        for name, entry in item.fields(None, example).items()
        if _is_name(name, entry)
    }


def _is_name(name: str, item: Item) -> bool:
    if name and name == name.strip() and not CONTROL.search(name):
        return True
    item.wrong("a name is a word: letters, digits and signs on one line")
    return False


def _cluster(name: str, item: Item) -> Cluster | None:
    given = item.fields(CLUSTER_KEYS, "root: ~/theseus")
    folders = {key: folder(given[key]) for key in CLUSTER_KEYS[:-1] if key in given}
    env = given["env"].environment() if "env" in given else {}
    root = folders.get("root")
    if root is None:
        if "root" not in given:
            item.wrong("no root: the folder of data and runs there, such as ~/theseus")
        return None
    work = folders.get("work") or f"{root.rstrip('/')}/work"
    others = {key: folders.get(key) for key in CLUSTER_KEYS[2:-1]}
    return Cluster(name, root=root, work=work, env=env, **others)


def _host(
    name: str, item: Item, clusters: Mapping[str, Cluster | None], here: Cluster
) -> Host | None:
    every = dict.fromkeys(key for keys in HOST_KEYS.values() for key in keys)
    written = item.fields(every, "ssh: mybox")
    kind = written["type"].choice(TYPES) if "type" in written else "plain"
    if kind is None:
        return None
    given = {}
    for key, value in written.items():
        if key in HOST_KEYS[kind]:
            given[key] = value
        else:
            others = [other for other in TYPES if key in HOST_KEYS[other]]
            value.mistakes.at(
                value.node,
                f"{value.name}: for hosts of type {' or '.join(others)}, and this one is {kind}",
            )
    cluster = _cluster_of(item, given.get("cluster"), kind, clusters, here)
    if kind in {"plain", "slurm"} and "ssh" not in given:
        item.wrong(f"no ssh: what `ssh` is called with, such as 'ssh: {name}'")
    ssh = word(given.get("ssh"), "what `ssh` is called with")
    if ssh is not None and ssh.startswith("-"):
        given["ssh"].wrong("begins with '-', which ssh would take for an option")
    transport = given["transport"].choice(TRANSPORTS) if "transport" in given else "auto"
    chips = given["chips"].counts("h100: 8", name_of=_chip) if "chips" in given else {}
    groups = _groups(given.get("uv_groups"))
    env = given["env"].environment() if "env" in given else {}
    python = folder(given["python"], "the path of a Python") if "python" in given else None
    setup = given["setup"].text("shell lines") if "setup" in given else None
    slurm_settings = slurm(given) if kind == "slurm" else None
    volcano_settings = volcano(item, given) if kind == "volcano" else None
    if cluster is None or transport is None or (kind == "volcano" and volcano_settings is None):
        return None
    is_here = kind == "local" or (kind == "volcano" and ssh is None)
    return Host(
        name,
        cast(HostType, kind),
        cluster,
        ssh=ssh,
        chips=chips,
        uv_groups=groups,
        env=env,
        python=python,
        setup=setup,
        transport="local" if is_here else cast(TransportName, transport),
        slurm=slurm_settings,
        volcano=volcano_settings,
    )


def _cluster_of(
    host: Item,
    item: Item | None,
    kind: str,
    clusters: Mapping[str, Cluster | None],
    here: Cluster,
) -> Cluster | None:
    if item is None:
        if kind == "local":
            return clusters.get(here.name) or here
        host.wrong(f"no cluster: whose folders it uses (known: {', '.join(clusters) or 'none'})")
        return None
    name = item.text("the name of a cluster")
    if name is not None and name not in clusters:
        known = f"(known: {', '.join(clusters) or 'none'})"
        item.wrong(f"no cluster is called '{name}'{did_you_mean(name, clusters)} {known}")
        return None
    return clusters[name] if name is not None else None


def _chip(item: Item, name: str) -> str | None:
    try:
        return chip(name).name
    except UnknownChipError as error:
        item.wrong(str(error))
        return None


def _groups(item: Item | None) -> tuple[str, ...]:
    if item is None:
        return ()
    groups = item.texts("[all, cuda13]")
    for group in groups:
        if not _GROUP.fullmatch(group):
            item.wrong(f"no dependency group can be called '{group}'")
    hardware = [group for group in _HARDWARE_GROUPS if group in groups]
    if len(hardware) > 1:
        item.wrong(f"{' and '.join(hardware)} exclude each other: one kind of hardware at a time")
    return groups


def _priority(item: Item | None, hosts: Mapping[str, Host | None]) -> tuple[str, ...]:
    named: list[str] = []
    for entry in item.items("[mybox, mycluster]") if item else []:
        name = entry.text("the name of a host")
        if name is None:
            continue
        if name not in hosts:
            known = f"(known: {', '.join(hosts) or 'none'})"
            entry.wrong(f"no host is called '{name}'{did_you_mean(name, hosts)} {known}")
        elif name in named:
            entry.wrong(f"'{name}' is there twice")
        else:
            named.append(name)
    return (*named, *(name for name in hosts if name not in named))


def _gres_mapping(item: Item | None) -> dict[str, str]:
    """Return SLURM's type → chip; libthx wrote it the other way round, which is understood too."""
    found: dict[str, str] = {}
    for key, value in item.fields(None, "nvidia_a100: a100-sxm4-80gb").items() if item else []:
        name = value.text("a chip")
        if name is None:
            continue
        known = chip_names()
        if name not in known and key in known:
            key, name = name, key  # noqa: PLW2901
        if _chip(value, name) is not None:
            found[key] = name
    return found
