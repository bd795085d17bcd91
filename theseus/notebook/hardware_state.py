"""What the hardware widget shows, as plain values: small parts, so that an edit sends few of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from omegaconf import OmegaConf

from theseus._summary import size_text
from theseus.combobulation import Combobulation
from theseus.dispatch.candidates import Candidate
from theseus.hardware.chips import Chip, chips
from theseus.hardware.choices import Choice
from theseus.hardware.memory import in_words
from theseus.hardware.resources import Resources
from theseus.hardware.sharding import ShardingPolicy
from theseus.sizing import REMAT, ROWS, Sizing, keys_of, on_processors, value_of

_TERA = 1e12


class Asked(TypedDict):
    """What the recipe asks for, as the controls show it."""

    name: str
    job: str
    chips: list[str]
    gpus: int | None
    nodes: int
    cpus: int | None
    memory: str
    clusters: list[str]
    avoid: list[str]
    tp: int
    fsdp: bool
    zero: bool
    remat: str | None
    rows: int | None
    settable: list[str]


class Memory(TypedDict):
    """The memory of one device."""

    status: str
    problem: str
    word: str
    text: str
    chip: str
    parts: list[tuple[str, int, str]]
    total: int
    memory: int | None
    usable: int | None
    mesh: tuple[int, int]
    devices: int
    on: dict[str, str]
    hopeless: bool


def catalogue() -> list[dict[str, Any]]:
    """Return the chips that can be chosen, with memory and dense bfloat16 peak in words."""
    return [
        {
            "name": one.name,
            "kind": one.kind,
            "memory": in_words(one.memory_bytes) if one.memory_bytes else "the machine's",
            "peak": _peak(one),
        }
        for one in chips()
    ]


def _peak(one: Chip) -> str:
    peak, what = one.bf16_flops, "bf16"
    if peak is None:
        peak, what = one.fp32_flops, "fp32"
    return f"{peak / _TERA:,.0f} TFLOP/s {what}" if peak else ""


def asked(spec: Combobulation) -> Asked:
    """Return what a recipe asks for."""
    wanted, settable = spec.resources, keys_of(spec)
    rows = value_of(spec, ROWS)
    return Asked(
        name=spec.identity.name,
        job=spec.job.name,
        chips=list(wanted.chips),
        gpus=wanted.gpus,
        nodes=wanted.nodes,
        cpus=wanted.cpus,
        memory="" if wanted.memory is None else size_text(wanted.memory),
        clusters=list(wanted.clusters),
        avoid=list(wanted.avoid),
        tp=wanted.sharding.tp,
        fsdp=wanted.sharding.fsdp,
        zero=wanted.sharding.zero,
        remat=str(value_of(spec, REMAT)) if REMAT in settable else None,
        rows=rows if isinstance(rows, int) else None,
        settable=sorted(settable),
    )


def offered(found: Sizing) -> dict[str, list[tuple[Any, str, str]]]:
    """Return, for each control, the values with why one cannot be chosen and what else to say."""
    all_ = found.choices
    named = {
        "gpus": all_.devices,
        "tp": all_.tp,
        "fsdp": all_.fsdp,
        "zero": all_.zero,
        "remat": all_.remat,
        "rows": all_.rows,
    }
    return {name: [_offered(one) for one in values] for name, values in named.items()}


def _offered(one: Choice) -> tuple[Any, str, str]:
    return one.value, one.why, one.note


def memory(found: Sizing, status: str) -> Memory:
    """Return the memory of one device by part, beside that of the chip.

    Parameters
    ----------
    status
        Why there is no estimate, or what is being done; empty when there is one.
    """
    here, setting = found.fit, found.setting
    known = here is not None
    mesh = None if found.obstacle else setting.mesh
    parts = here.estimate.parts if here else {}
    on: dict[str, str] = {
        one.name: fit.word for one in chips() if one.memory_bytes and (fit := found.fit_on(one))
    }
    return Memory(
        status=status,
        problem=found.obstacle,
        word=here.word if here else "",
        text=str(here) if here else "",
        chip=here.chip if here else "",
        parts=[(name, count, in_words(count)) for name, count in parts.items() if count],
        total=here.estimate.total if here else 0,
        memory=here.memory if here else None,
        usable=here.usable if here else None,
        mesh=(mesh.data, mesh.tensor) if mesh else (0, 0),
        devices=setting.devices,
        on={} if not known or on_processors(found.spec.resources) else on,
        hopeless=known and here is not None and here.word == "does not fit" and not found.ways,
    )


def ways(found: Sizing) -> list[dict[str, str]]:
    """Return the ways to make it fit, in words."""
    return [
        {"changes": ", ".join(way.changes), "gain": way.gain, "then": str(way.fit)}
        for way in found.ways
    ]


def hosts(found: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return the hosts with what is known of them."""
    return [
        {
            "name": one.name,
            "type": one.type,
            "could": one.could,
            "reason": one.reason,
            "chips": _having(one),
            "probed": one.probed,
        }
        for one in found
    ]


def _having(one: Candidate) -> str:
    free = one.free
    if free is None:
        return ", ".join(f"{count} × {name}" for name, count in one.chips.items())
    return ", ".join(f"{free.get(name, 0)} of {n} {name} free" for name, n in one.chips.items())


# The same as code


def python(spec: Combobulation, changed: Mapping[str, Any], q: str = "q") -> str:
    """Return the shortest Python that makes this request of a recipe `q`.

    Parameters
    ----------
    changed
        Configuration values that the widget changed, by key.
    """
    lines = [f"{q}.config.{key} = {value!r}" for key, value in changed.items()]
    wanted, calls = spec.resources, []
    if wanted.chips:
        calls.append(f".chip({', '.join(map(_quoted, wanted.chips))})")
    if wanted.gpus is not None:
        calls.append(f".gpu({wanted.gpus})")
    if wanted.nodes != 1:
        calls.append(f".nodes({wanted.nodes})")
    if wanted.cpus is not None:
        calls.append(f".cpu({wanted.cpus})")
    if wanted.memory is not None:
        calls.append(f".memory({_size(wanted)})")
    if wanted.clusters:
        calls.append(f".cluster({', '.join(map(_quoted, wanted.clusters))})")
    if wanted.avoid:
        calls.append(f".avoid({', '.join(map(_quoted, wanted.avoid))})")
    if wanted.sharding != ShardingPolicy():
        calls.append(f".shard({_sharding(wanted.sharding)})")
    if len(calls) <= 2:
        return "\n".join([*lines, f"c = {q}.spec(){''.join(calls)}"])
    body = "".join(f"\n    {call}" for call in calls)
    return "\n".join([*lines, f"c = (\n    {q}.spec(){body}\n)"])


def _sharding(policy: ShardingPolicy) -> str:
    parts = [f"tp={policy.tp}"] if policy.tp > 1 else []
    parts += [f"{name}=True" for name in ("fsdp", "zero") if getattr(policy, name)]
    return ", ".join(parts)


def _quoted(text: str) -> str:
    # With the quotes that people type, where the text has none of its own.
    plain = text.isprintable() and not set(text) & set("\"'\\")
    return f'"{text}"' if plain else repr(text)


def _size(wanted: Resources) -> str:
    for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        count, rest = divmod(wanted.memory or 0, 1024**power)
        if count and not rest:
            return f'"{count}{unit}"'
    return str(wanted.memory)


def command_line(spec: Combobulation, changed: Mapping[str, Any]) -> str:
    """Return the same as options of `%%theseus`, `theseus configure` and `theseus submit`."""
    wanted = spec.resources
    words: list[str] = []
    for name in wanted.chips:
        words += ["--chip", name]
    for option, value in (("--gpus", wanted.gpus), ("--cpus", wanted.cpus)):
        words += [] if value is None else [option, str(value)]
    words += [] if wanted.memory is None else ["--memory", _size(wanted).strip('"')]
    words += [] if wanted.nodes == 1 else ["--nodes", str(wanted.nodes)]
    for option, names in (("--cluster", wanted.clusters), ("--avoid", wanted.avoid)):
        for name in names:
            words += [option, name]
    words += [] if wanted.sharding.tp == 1 else ["--tp", str(wanted.sharding.tp)]
    words += [f"--{name}" for name in ("fsdp", "zero") if getattr(wanted.sharding, name)]
    words += [f"{key}={'null' if value is None else value}" for key, value in changed.items()]
    return shlex.join(words)


def yaml(spec: Combobulation) -> str:
    """Return the file that Save writes; code that travels in it is only said to be there."""
    saved: Any = OmegaConf.to_container(spec.serialize())
    travelling = spec.job.travelling
    if travelling is not None:
        told = f"({len(travelling.payload):,} bytes, in the file)"
        saved["job"] = {**saved["job"], "payload": told, "sources": sorted(travelling.sources)}
    return OmegaConf.to_yaml(OmegaConf.create(saved))
