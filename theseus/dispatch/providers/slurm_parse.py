"""Read what SLURM's tools print: nodes, partitions, GPUs of any spelling, jobs and their states.

Everything here is total: an unknown word is not usable, and is shown, but it is never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from theseus.dispatch.providers.base import State

SEPARATOR = "\x1f"  # between the columns that we ask squeue for: names may hold anything printable

Use = Literal["now", "later", "never"]
Counts = Mapping[str, int]  # GRES type as the cluster spells it ("" when it has none) → how many

_ABSENT = {"", "(null)", "N/A", "none", "None"}
_GRES = re.compile(r"(?:gres[:/])?gpu(?::([^:(,=]+))??(?:[:=](\d+))?(?:\(.*)?", re.IGNORECASE)


# GPUs


def parse_gres(text: str) -> dict[str, int]:
    """Return the GPUs in a GRES text, per type: `gpu:3090:3(IDX:0-1,3)` is three of `3090`.

    Reads `Gres=`, `GresUsed=`, squeue's `%b` (`gres/gpu:h100:2`) and ignores what is no GPU.
    """
    found: dict[str, int] = {}
    for entry in _split_outside_parentheses(text.strip()):
        match = _GRES.fullmatch(entry.strip())
        if match is None:
            continue
        kind, count = match[1] or "", match[2]
        if count is None and kind.isdecimal():
            kind, count = "", kind
        found[kind] = found.get(kind, 0) + (int(count) if count else 1)
    return found


def parse_tres(text: str) -> dict[str, str]:
    """Return `cpu=4,mem=15000M,gres/gpu:h200=3` as names and values."""
    pairs = (entry.partition("=") for entry in text.split(","))
    return {name.strip(): value.strip() for name, mark, value in pairs if mark}


def tres_gpus(text: str) -> tuple[dict[str, int], int]:
    """Return the GPUs of a TRES text per type, and how many in all.

    A typed entry is counted in the untyped one as well, or is missing when a job asked for no
    type: the two must not be added.
    """
    typed: dict[str, int] = {}
    untyped = 0
    for name, value in parse_tres(text).items():
        if not value.isdecimal() or not name.lower().startswith("gres/gpu"):
            continue
        kind = name[len("gres/gpu") :]
        if kind.startswith(":"):
            typed[kind[1:]] = int(value)
        elif not kind:
            untyped = int(value)
    return typed, max(untyped, sum(typed.values()))


def _split_outside_parentheses(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth = max(depth + (letter == "(") - (letter == ")"), 0)
        if letter == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


# Nodes and partitions


@dataclass(frozen=True)
class Node:
    """One node: what it has, what of that is taken, and whether it can be used.

    Attributes
    ----------
    used
        GPUs in use per type; None where neither TRES nor GRES says and squeue must.
    cpus, memory
        What jobs may have, and what of it is free (`…_free`); memory in MiB.
    state
        As SLURM writes it.
    """

    name: str
    state: str
    gpus: Counts
    used: Counts | None
    partitions: tuple[str, ...]
    cpus: int = 0
    cpus_free: int = 0
    memory: int = 0
    memory_free: int = 0
    features: tuple[str, ...] = ()
    reason: str | None = None
    address: str | None = None

    @property
    def use(self) -> Use:
        """Whether a job can start there now, later or never."""
        return node_state(self.state)


@dataclass(frozen=True)
class Partition:
    """One partition; `up` is whether it takes jobs and starts them."""

    name: str
    default: bool
    up: bool
    state: str
    # MiB that a job gets which asks for none, per node or per CPU; None is "all of the node".
    memory_per_node: int | None = None
    memory_per_cpu: int | None = None
    most_nodes: int | None = None


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Return the nodes in the output of `scontrol -d -o show node`."""
    return tuple(
        _node(fields) for fields in map(fields_of, text.splitlines()) if fields.get("NodeName")
    )


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in the output of `scontrol -o show partition`."""
    return tuple(
        Partition(
            name=fields["PartitionName"],
            default=fields.get("Default", "").upper() == "YES",
            up=fields.get("State", "UP").upper() == "UP",
            state=fields.get("State", "UP"),
            memory_per_node=_whole(fields.get("DefMemPerNode")),
            memory_per_cpu=_whole(fields.get("DefMemPerCPU")),
            most_nodes=_whole(fields.get("MaxNodes")),
        )
        for fields in map(fields_of, text.splitlines())
        if fields.get("PartitionName")
    )


def fields_of(line: str) -> dict[str, str]:
    """Return `Key=value Key=value`, where values hold spaces, `#` and `=`; the first of a key wins.

    A reason that somebody wrote may read like more keys: it comes after the real ones.
    """
    found: dict[str, str] = {}
    for match in re.finditer(
        r"(?:^|(?<=\s))([A-Za-z][\w/:.-]*)=(.*?)(?=\s+[A-Za-z][\w/:.-]*=|\s*$)", line
    ):
        found.setdefault(match[1], match[2].strip())
    return found


def node_state(text: str) -> Use:
    """Return whether a node in this state can be used: now, later (busy or asleep) or never.

    Short forms (`mix-`, `idle~`) and long ones (`IDLE+CLOUD+POWERED_DOWN`), as in sinfo(1).
    """
    word = text.strip().upper()
    body = word.rstrip("*~#!%$@^-+")
    marks = set(word[len(body) :]) - {"+"}
    base, *flags = (flag.rstrip("*~#!%$@^-+") for flag in body.split("+"))
    marks |= {letter for letter in body if letter in "*~#!%$@^"}
    if marks - {"-", "~", "#"} or not set(flags) <= _HARMLESS | _WAITING:
        return "never"
    waiting = bool(marks & {"~", "#"}) or bool(_WAITING & set(flags) - _FINE_WHEN_MIXED)
    if base in {"MIX", "MIXED"}:
        return "later" if waiting else "now"
    if base == "IDLE":
        return "later" if waiting or _WAITING & set(flags) else "now"
    return (
        "later"
        if base in {"ALLOC", "ALLOCATED", "COMP", "COMPLETING", "PLND", "PLANNED"}
        else "never"
    )


_HARMLESS = {"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "NONE"}
_FINE_WHEN_MIXED = {"PLANNED", "COMPLETING"}
_WAITING = {"POWERED_DOWN", "POWERING_UP", *_FINE_WHEN_MIXED}


def _node(fields: Mapping[str, str]) -> Node:
    gpus = parse_gres(fields.get("Gres", ""))
    for kind, count in parse_gres(fields.get("GresDrain", "")).items():
        if kind in gpus:
            gpus[kind] = max(gpus[kind] - count, 0)
    cpus = _whole(fields.get("CPUEfctv"))
    if cpus is None:  # before 22.05
        reserved = (_whole(fields.get("CoreSpecCount")) or 0) * (
            _whole(fields.get("ThreadsPerCore")) or 1
        )
        cpus = max((_whole(fields.get("CPUTot")) or 0) - reserved, 0)
    memory = (_whole(fields.get("RealMemory")) or 0) - (_whole(fields.get("MemSpecLimit")) or 0)
    said = fields.get("Reason")
    return Node(
        name=fields["NodeName"],
        state=fields.get("State", "UNKNOWN"),
        gpus=gpus,
        used=_used(gpus, fields),
        partitions=tuple(filter(None, fields.get("Partitions", "").split(","))),
        cpus=cpus,
        cpus_free=max(cpus - (_whole(fields.get("CPUAlloc")) or 0), 0),
        memory=max(memory, 0),
        memory_free=max(memory - (_whole(fields.get("AllocMem")) or 0), 0),
        features=_listed(fields.get("ActiveFeatures") or fields.get("AvailableFeatures") or ""),
        reason=None if said is None or said in _ABSENT else said,
        address=fields.get("NodeAddr"),
    )


def _used(gpus: Counts, fields: Mapping[str, str]) -> dict[str, int] | None:
    """Return the GPUs in use. TRES counts them when it knows GPUs at all, GRES otherwise."""
    by_gres = parse_gres(fields["GresUsed"]) if "GresUsed" in fields else None
    if not tres_gpus(fields.get("CfgTRES", ""))[1]:
        return by_gres if gpus else {}
    typed, in_all = tres_gpus(fields.get("AllocTRES", ""))
    unnamed = in_all - sum(typed.values())
    if not unnamed and set(typed) <= set(gpus):
        return typed
    if len(gpus) == 1:
        return {next(iter(gpus)): in_all}
    if by_gres is not None:
        return by_gres
    # Of several types, any may be the one in use.
    return {kind: typed.get(kind, 0) + unnamed for kind in gpus}


def _listed(text: str) -> tuple[str, ...]:
    return () if text in _ABSENT else tuple(filter(None, text.split(",")))


def _whole(text: str | None) -> int | None:
    found = re.match(r"\d+", text or "", re.ASCII)
    return int(found[0]) if found else None


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names in a host list: `n[1-3,07],login` is n1, n2, n3, n07 and login."""
    names: list[str] = []
    for entry in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        expanded = [""]
        for piece in re.findall(r"\[[^\]]*\]|[^\[]+", entry.strip()):
            endings = _numbers(piece[1:-1]) if piece.startswith("[") else [piece]
            expanded = [before + ending for before in expanded for ending in endings][:100_000]
        names += expanded
    return tuple(filter(None, names))


def _numbers(text: str) -> list[str]:
    found = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,9})-(\d{1,9})", part, re.ASCII)
        if ends is None:
            found.append(part)
            continue
        last = min(int(ends[2]), int(ends[1]) + 100_000)
        found += [str(number).zfill(len(ends[1])) for number in range(int(ends[1]), last + 1)]
    return found


# Jobs

_STATES: dict[State, tuple[str, ...]] = {
    "queued": (
        "PD PENDING",
        "RD RESV_DEL_HOLD",
        "RF REQUEUE_FED",
        "RH REQUEUE_HOLD",
        "RQ REQUEUED",
        "SE SPECIAL_EXIT",
    ),
    "running": (
        "R RUNNING",
        "CF CONFIGURING",
        "CG COMPLETING",
        "RS RESIZING",
        "SI SIGNALING",
        "SO STAGE_OUT",
        "ST STOPPED",
        "S SUSPENDED",
    ),
    "finished": ("CD COMPLETED",),
    "failed": (
        "BF BOOT_FAIL",
        "DL DEADLINE",
        "F FAILED",
        "NF NODE_FAIL",
        "OOM OUT_OF_MEMORY",
        "TO TIMEOUT",
    ),
    "cancelled": ("CA CANCELLED",),
    # Ended, and about to be queued again: which of the two, only the queue can tell.
    "lost": ("PR PREEMPTED",),
}
_BY_WORD = {
    form: state for state, pairs in _STATES.items() for pair in pairs for form in pair.split()
}


def job_state(text: str) -> State:
    """Return the state of a job: `CANCELLED by 1000` and a cut `CANCELLED+` are cancelled.

    A word that is not known, and `REVOKED` (the job moved to another cluster), is `unknown`.
    """
    word = (text.split() or [""])[0].upper()
    if word in _BY_WORD:
        return _BY_WORD[word]
    if word.endswith("+"):
        whole = {state for form, state in _BY_WORD.items() if form.startswith(word[:-1])}
        if len(whole) == 1:
            return whole.pop()
    return "unknown"


def parse_job_id(text: str) -> tuple[str, str | None] | None:
    """Return the id and cluster that `sbatch --parsable` printed, or None when it is not clear.

    Only a whole line counts: sites print notices, and some of those hold numbers.
    """
    found = [
        match
        for line in text.splitlines()
        if (match := re.fullmatch(r"(\d+)(?:;([\w.-]+))?", line.strip(), re.ASCII))
    ]
    return (found[0][1], found[0][2]) if len(found) == 1 else None


def parse_rows(text: str, columns: int) -> list[tuple[str, ...]]:
    """Return the rows that have this many columns, by `SEPARATOR`; others are notices."""
    rows = (tuple(line.split(SEPARATOR)) for line in text.splitlines())
    return [tuple(map(str.strip, row)) for row in rows if len(row) == columns]


def parse_time(text: str) -> float | None:
    """Return unix seconds, as printed under `SLURM_TIME_FORMAT=%s`; None when it is not one."""
    return float(text) if re.fullmatch(r"\d{9,11}", text.strip(), re.ASCII) else None


def parse_estimate(text: str) -> float | None:
    """Return when `sbatch --test-only` would start the job, unix seconds."""
    found = re.search(r"to start at (\d{9,11})\b", text, re.ASCII)
    return float(found[1]) if found else None


def holders(rows: Iterable[tuple[str, ...]]) -> dict[str, int]:
    """Return user → GPUs held, from rows of user, number of nodes and GRES per node (`%u %D %b`)."""
    held: dict[str, int] = {}
    for user, nodes, gres in rows:
        count = sum(parse_gres(gres).values()) * (_whole(nodes) or 1)
        if count:
            held[user] = held.get(user, 0) + count
    return held
