"""`theseus hosts test`: the whole way with a tiny job, step by step, each with a remedy.

Here are the steps, their order and what to do when one fails; what each step does is given by the
caller, who has the launch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from theseus.dispatch.inventory import Host
from theseus.errors import UserError

Name = Literal[
    "reach", "folders", "ask", "send", "prepare", "launch", "run", "log", "fetch", "clean"
]

_TITLES: Mapping[Name, str] = {
    "reach": "the host answers",
    "folders": "its folders can be written",
    "ask": "it says what is free",
    "send": "the project arrives",
    "prepare": "the environment is made",
    "launch": "a tiny job starts",
    "run": "it runs to its end",
    "log": "its log comes back",
    "fetch": "its result comes back",
    "clean": "nothing is left behind",
}
_HERE: Mapping[Name, str] = {"reach": "this machine answers"}


@dataclass(frozen=True)
class Step:
    """One step of the way and what it shows when it works."""

    name: Name
    title: str


@dataclass(frozen=True)
class Outcome:
    """What became of a step.

    Attributes
    ----------
    detail
        What was seen, or what went wrong.
    remedy
        What to do about it; empty when it passed.
    """

    step: Step
    result: Literal["passed", "failed", "skipped"]
    detail: str = ""
    remedy: str = ""
    seconds: float | None = None


def steps(host: Host) -> tuple[Step, ...]:
    """Return the steps for a host, in order."""
    titles = {**_TITLES, **(_HERE if host.ssh is None and host.type != "volcano" else {})}
    if host.type == "slurm":
        titles |= {"ask": "SLURM answers", "launch": "SLURM takes a tiny job"}
    if host.type == "volcano":
        titles |= {"ask": "the queue is open", "launch": "Volcano takes a tiny job"}
        titles |= {"reach": "kubectl reaches the cluster", "folders": "the volume can be written"}
    if host.python is not None:
        titles["prepare"] = f"{host.python} can run it"
    return tuple(Step(name, title) for name, title in titles.items())


def try_out(
    host: Host,
    actions: Mapping[Name, Callable[[], str]],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Outcome]:
    """Take the steps one after the other, and yield what became of each.

    After one that fails the others are skipped, except that what was begun is cleaned up.

    Parameters
    ----------
    actions
        What each step does; it returns what was seen, and raises `UserError` when it fails. A
        step that has none is left out.
    """
    failed: Step | None = None
    for step in steps(host):
        action = actions.get(step.name)
        if action is None:
            continue
        if failed is not None and step.name != "clean":
            yield Outcome(step, "skipped", f"because of: {failed.title}")
            continue
        begun = clock()
        try:
            detail = action()
        except UserError as error:
            failed = failed or step
            yield Outcome(
                step, "failed", str(error), remedy(step.name, host, error), clock() - begun
            )
        else:
            yield Outcome(step, "passed", detail, seconds=clock() - begun)


def rows(outcomes: Iterable[Outcome]) -> list[tuple[str, str, str]]:
    """Return mark, step and what to say of each, for a terminal and a notebook."""
    marks = {"passed": "✓", "failed": "✗", "skipped": "–"}
    found = []
    for outcome in outcomes:
        took = "" if outcome.seconds is None else f" ({outcome.seconds:.1f} s)"
        found.append((marks[outcome.result], outcome.step.title, f"{outcome.detail}{took}".strip()))
        if outcome.remedy:
            found.append(("", "", f"→ {outcome.remedy}"))
    return found


def verdict(host: Host, outcomes: Sequence[Outcome]) -> str:
    """Return in one line how it went."""
    failed = [outcome.step.title for outcome in outcomes if outcome.result == "failed"]
    if failed:
        return f"{host.name} is not ready: it failed at '{failed[0]}'"
    return f"{host.name} is ready: a run can go there"


def remedy(name: Name, host: Host, error: UserError | None = None) -> str:
    """Return what to do when a step fails."""
    kind = str(getattr(error, "kind", ""))
    if kind in _CONNECTION:
        return _CONNECTION[kind].format(ssh=host.ssh or "")
    chosen = {**_REMEDIES, **_BY_TYPE.get(host.type, {})}
    if name == "prepare" and host.python is not None:
        return (
            f"run `{host.python} -c 'import jax, theseus'` there; install what it lacks, or take "
            "`python:` out and let uv make the environment"
        )
    return chosen[name].format(
        ssh=host.ssh or "",
        cluster=host.cluster.name,
        groups=", ".join(host.uv_groups) or "none",
    )


_CONNECTION: Mapping[str, str] = {
    "unreachable": "try `ssh {ssh}` in a terminal; check the name, the network or VPN, and HostName, "
    "Port and ProxyJump in ~/.ssh/config",
    "host_key": "compare the fingerprint with the host's administrator, then do what the message says",
    "authentication": "try `ssh {ssh}` in a terminal; load the key with ssh-add, or log in once and "
    "set `transport: openssh` when the site asks for Kerberos or a second factor",
    "timeout": "try `ssh {ssh}` in a terminal: when it is slow there too, the host or the network is "
    "busy; try again later",
    "lost": "the connection broke: try again; when it happens always, set ServerAliveInterval 15 "
    "for the host in ~/.ssh/config",
    "protocol": "something else than our program answered: try `ssh {ssh} /bin/sh -c true`; a "
    "start-up file (.bashrc, .cshrc) may end the session or replace the shell",
}
_REMEDIES: Mapping[Name, str] = {
    "reach": "try `ssh {ssh}` in a terminal: what works there works here",
    "folders": "change root, work or log of the cluster '{cluster}' in the inventory to folders that "
    "you may write there and that have room",
    "ask": "run `nvidia-smi` there: when it fails, the driver needs its administrator",
    "send": "see that there is room in the cluster's `work` folder ('{cluster}'); data that a run "
    "does not need here belongs into .gitignore",
    "prepare": "see the lines above; uv_groups is now: {groups} (all with one of cpu, cuda12, cuda13, "
    "tpu). Without network there, prepare an environment and name its Python in `python:`",
    "launch": "see the message; when all chips are taken, wait or try another host",
    "run": "see its log: when JAX finds no GPU, uv_groups (now: {groups}) must fit the driver: cuda13 "
    "from 580 on, cuda12 from 525 on",
    "log": "see that the cluster's `root` and `log` folders ('{cluster}') are the same on the "
    "machine that runs jobs and on the one that `ssh` reaches",
    "fetch": "see that the cluster's `root` folder ('{cluster}') is the same on the machine that runs "
    "jobs and on the one that `ssh` reaches",
    "clean": "end what is left with `theseus cancel`, and see `nvidia-smi` there",
}
_BY_TYPE: Mapping[str, Mapping[Name, str]] = {
    "slurm": {
        "ask": "run `sinfo` there: it must work without a login shell's modules, or name them in "
        "`setup:`",
        "launch": "SLURM's message says what it lacks: set account, qos, time, mem or partitions of "
        "this host in the inventory",
        "run": "see its log and `sacct`; a node where `root` is another disk needs `share:` in the "
        "cluster '{cluster}'",
        "clean": "end what is left with `theseus cancel`, and see `squeue --me` there",
    },
    "volcano": {
        "reach": "run `kubectl get nodes` here; set `context` or `kubeconfig` of this host in the "
        "inventory",
        "folders": "see that pvc_name is bound (`kubectl get pvc`) and pvc_mount_path is where the "
        "cluster '{cluster}' has its folders",
        "ask": "run `kubectl get queue`: set `queue` to one whose state is Open",
        "launch": "run `kubectl describe vcjob`: service_account, priority_class, node_selector and "
        "tolerations of this host must fit the cluster",
        "run": "run `kubectl describe pod`: the image must be pulled and hold `sh`; shm_size and "
        "memory must be enough",
        "clean": "end what is left with `theseus cancel`, and see `kubectl get vcjob`",
    },
    "local": {
        "reach": "this machine has no /bin/sh that answers",
    },
}
