"""Which choices of hardware and sharding a model can be trained with, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from theseus.hardware.fitting import REMATS, Setting, Workload, micro_batch
from theseus.hardware.sharding import Indivisible, divisors, indivisible, optimizer_rules

# Numbers of chips that are offered beside those in use: what machines and their groups have.
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)
_MANY = 16  # values of one choice that are shown

_AXES = {
    "heads": "{} heads do not divide by {}",
    "mlp": "the MLP's width of {:,} does not divide by {}",
    "vocab": "a vocabulary of {:,} does not divide by {}",
    "embed": "a width of {:,} does not divide by {}",
}


@dataclass(frozen=True)
class Choice:
    """One value that a setting could have.

    Attributes
    ----------
    why
        Why it cannot be chosen; empty when it can.
    note
        What else there is to say of one that can.
    """

    value: Any
    why: str = ""
    note: str = ""

    @property
    def legal(self) -> bool:
        """Whether it can be chosen."""
        return not self.why


@dataclass(frozen=True)
class Choices:
    """What can be chosen instead of each part of a setting, all else as it is."""

    devices: tuple[Choice, ...]
    tp: tuple[Choice, ...]
    fsdp: tuple[Choice, ...]
    zero: tuple[Choice, ...]
    remat: tuple[Choice, ...]
    rows: tuple[Choice, ...]


def obstacle(work: Workload | None, setting: Setting) -> str:
    """Return why a setting cannot be trained with, in one line; empty when it can.

    Parameters
    ----------
    work
        None: what holds for every model.
    """
    devices, tp, nodes = setting.devices, setting.policy.tp, setting.nodes
    if devices % nodes:
        return f"{_count(devices, 'chip')} cannot be spread evenly over {nodes} nodes"
    if devices % tp:
        return f"tp {tp} does not divide {_count(devices, 'chip')}"
    if work is None:
        return ""
    arrays = [(array.shape, array.axes) for array in work.parameters]
    found = indivisible(arrays, optimizer_rules(setting.policy), setting.mesh)
    if found:
        return _undivided(found[0])
    data = setting.mesh.data
    if work.batch_size % data:
        return f"a batch of {_count(work.batch_size, 'row')} does not divide by {data}"
    share = work.batch_size // data
    if setting.rows is not None and share % setting.rows:
        return f"micro-batches of {setting.rows} do not divide the {share} rows of each device"
    return ""


def choices(work: Workload | None, setting: Setting) -> Choices:
    """Return every choice, with the reason for those that cannot be made."""
    policy, now = setting.policy, obstacle(work, setting)
    alone = setting.devices == policy.tp

    def tried(values: Iterable[Any], change: Callable[[Any], Setting]) -> tuple[Choice, ...]:
        return tuple(Choice(value, obstacle(work, change(value))) for value in values)

    def beside(values: Iterable[Any], change: Callable[[Any], Setting]) -> tuple[Choice, ...]:
        # What stands in the way already is not the fault of these.
        return tuple(
            replace(one, why="") if one.why == now else one for one in tried(values, change)
        )

    def spread(**on: bool) -> tuple[Choice, ...]:
        return beside(
            (False, True),
            lambda value: replace(setting, policy=policy.changed(**dict.fromkeys(on, value))),
        )

    idle = "changes nothing: " + (
        "there is one chip" if setting.devices == 1 else "tp takes all chips"
    )
    fsdp, zero = spread(fsdp=True), spread(zero=True)
    return Choices(
        devices=tried(_counts(setting), lambda value: replace(setting, devices=value)),
        tp=tried(
            _tensor(work, setting), lambda value: replace(setting, policy=policy.changed(tp=value))
        ),
        fsdp=_noted(fsdp, idle if alone else ""),
        zero=_noted(zero, idle if alone else ("fsdp does this, too" if policy.fsdp else "")),
        remat=beside(REMATS, lambda value: replace(setting, remat=value)),
        rows=_derived(
            work, setting, beside(_rows(work, setting), lambda value: replace(setting, rows=value))
        ),
    )


def _derived(
    work: Workload | None, setting: Setting, rows: tuple[Choice, ...]
) -> tuple[Choice, ...]:
    unset, *others = rows
    derived = replace(setting, rows=None)
    if work is not None and not obstacle(work, derived):
        unset = replace(unset, note=str(micro_batch(work, derived)))
    return (unset, *others)


def _noted(pair: tuple[Choice, ...], note: str) -> tuple[Choice, ...]:
    off, on = pair
    return (off, replace(on, note=note if on.legal else ""))


def _counts(setting: Setting) -> list[int]:
    return sorted({*COUNTS, setting.devices})


def _tensor(work: Workload | None, setting: Setting) -> list[int]:
    """Return degrees of tensor parallelism: powers of two, what divides the chips, and the heads."""
    values = {setting.policy.tp, 1, 2, 4, 8, *divisors(setting.devices)}
    if work is not None:
        values |= {part for part in divisors(work.sizes.heads) if part <= 8}
    within = [value for value in sorted(values) if value <= max(8, setting.policy.tp)]
    return within[:_MANY]


def _rows(work: Workload | None, setting: Setting) -> list[int | None]:
    """Return sizes of a micro-batch: those that divide, and None for the most that does."""
    found = set() if setting.rows is None else {setting.rows}
    if work is not None and not setting.devices % setting.policy.tp:
        share, rest = divmod(work.batch_size, setting.mesh.data)
        if not rest and share:
            found |= set(divisors(share)[:_MANY])
    return [None, *sorted(found)]


def _undivided(wrong: Indivisible) -> str:
    told = _AXES.get(wrong.axis)
    if told is None:
        return f"an axis '{wrong.axis}' of {wrong.size:,} does not divide by {wrong.parts}"
    if wrong.axis == "heads" and wrong.size == 1:
        return "there is one head"
    return told.format(wrong.size, wrong.parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
