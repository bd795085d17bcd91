"""Ways to make a training step fit the memory of its chips, those that cost least speed first.

What a change costs is a share of the speed of each chip, from what it makes the step do more:

=============================  =====  ==============================================================
change                         cost   why
=============================  =====  ==============================================================
zero                           0.01   as many bytes are sent as without (ZeRO, arXiv:1910.02054, §7)
micro-batch, each halving      0.03   the same arithmetic in smaller products, one sum more
fsdp                           0.08   half as many bytes more are sent (ZeRO, §7)
remat dots                     0.10   all but the matrix products of the forward pass, again
tp, each doubling              0.15   four all-reduces a layer, which nothing else can go beside
remat block                    0.25   the forward pass again: a fourth more than three parts
only some of the chips named   0.02   nothing is lost, but fewer hosts can take the run
more chips, each doubling      0.30   nothing is lost, but they must be there
another chip                   0.35   the same, and what it is slower by
=============================  =====  ==============================================================

The figures only order the ways; they are no prediction of a run's speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from theseus.hardware.chips import Chip
from theseus.hardware.choices import COUNTS, obstacle
from theseus.hardware.fitting import (
    REMATS,
    Fit,
    Remat,
    Setting,
    Workload,
    fit,
    micro_batch,
)
from theseus.hardware.memory import in_words
from theseus.hardware.sharding import ShardingPolicy, divisors

ZERO, HALVING, FSDP, DOTS, DOUBLE_TP, BLOCK = 0.01, 0.03, 0.08, 0.10, 0.15, 0.25
FEWER_KINDS, MORE_CHIPS, OTHER_CHIP = 0.02, 0.30, 0.35
SPREADS = (0.0, ZERO, FSDP)
REMAT = {"none": 0.0, "dots": DOTS, "block": BLOCK}
OTHER_CHIP_WORDS = ("chip ", "without ")
_TIMES = (2, 4, 8)  # as many chips as now
_WIDEST_TP = 8  # chips with fast links between all of them, in most machines


@dataclass(frozen=True)
class Way:
    """One way to make a step fit.

    Attributes
    ----------
    setting
        What it leads to.
    changes
        What it changes, a few words each.
    saved
        Bytes by which each device needs less; negative where another chip has to hold more.
    cost
        See the table above.
    fit
        The estimate that it leads to.
    """

    setting: Setting
    changes: tuple[str, ...]
    saved: int
    cost: float
    fit: Fit

    @property
    def gain(self) -> str:
        """What it brings: bytes saved on each device, or the memory of another chip."""
        chip = self.setting.chip
        if not self.saved and not self.cost:
            return ""
        if self.changes[0].startswith(OTHER_CHIP_WORDS) and chip and chip.memory_bytes:
            return f"{in_words(chip.memory_bytes)} of memory"
        return f"{'−' if self.saved >= 0 else '+'}{in_words(abs(self.saved))}"

    def __str__(self) -> str:
        gain = f"{self.gain}, " if self.gain else ""
        return f"{', '.join(self.changes)}: {gain}then {self.fit}"


@dataclass(frozen=True)
class _Try:
    setting: Setting
    rungs: tuple[int, ...]  # how far it goes in each direction
    cost: float


def ways_to_fit(
    work: Workload,
    setting: Setting,
    *,
    named: Sequence[Chip] = (),
    others: Sequence[Chip] = (),
    capacity: int | None = None,
    count: int = 3,
) -> list[Way]:
    """Return ways to make a step fit that does not, those that cost least speed first.

    None of them goes further than it must: without any one of its changes it would not fit.

    Parameters
    ----------
    setting
        Can be trained with, on the named chip that has least memory.
    named
        All chips that were named; the step must fit each.
    others
        Chips that could be named instead.
    capacity
        Bytes of a device whose chip has no memory of its own.
    count
        How many ways, at most.
    """
    unfit = [one for one in named if fit(work, replace(setting, chip=one)).word != "fits"]
    fitting = [one for one in named if one not in unfit]
    tries = [*_software(work, setting), *_hardware(setting, fitting, others)]

    def least(tries: list[_Try]) -> list[Way]:
        found = _least(work, fit(work, setting, capacity), tries, capacity)
        return [
            Way(
                one.setting,
                tuple(_changes(setting, one.setting, unfit if fitting else ())),
                saved,
                one.cost,
                there,
            )
            for one, saved, there in islice(found, count)
        ]

    return least(tries) or least(list(_both(work, setting)))


def ways_to_train(
    work: Workload, setting: Setting, *, capacity: int | None = None, count: int = 3
) -> list[Way]:
    """Return settings that can be trained with, the nearest to one that cannot.

    Chips and tensor parallelism are tried together, since each has to divide the other.
    """

    def far(devices: int, tp: int, policy: ShardingPolicy) -> tuple[float, ...]:
        apart = abs(math.log2(devices / setting.devices))
        return (
            (devices != setting.devices) + (tp != setting.policy.tp) + (policy != setting.policy),
            apart + abs(math.log2(tp / setting.policy.tp)),
            devices,
        )

    policies = {setting.policy, setting.policy.changed(fsdp=False, zero=False)}
    counts = sorted({*COUNTS, setting.devices})
    tried = sorted(
        product(counts, sorted({1, 2, 4, 8, setting.policy.tp}), policies),
        key=lambda one: far(*one),
    )
    ways: list[Way] = []
    for devices, tp, policy in tried:
        rows = (setting.rows, None) if setting.rows is not None else (None,)
        for asked in rows:
            chosen = replace(setting, devices=devices, policy=replace(policy, tp=tp), rows=asked)
            if not obstacle(work, chosen):
                told = tuple(_changes(setting, chosen, ()))
                ways.append(Way(chosen, told, 0, 0.0, fit(work, chosen, capacity)))
                break
        if len(ways) == count:
            break
    return ways


def _least(
    work: Workload, now: Fit, tries: list[_Try], capacity: int | None
) -> Iterator[tuple[_Try, int, Fit]]:
    """Yield those that fit, from the cheapest on, leaving out what goes further than another."""
    taken: list[_Try] = []
    for one in sorted(tries, key=lambda one: (one.cost, one.rungs)):
        further = any(
            all(a >= b for a, b in zip(one.rungs, other.rungs, strict=True)) for other in taken
        )
        if further or obstacle(work, one.setting):
            continue
        found = fit(work, one.setting, capacity)
        if found.word == "fits":
            taken.append(one)
            yield one, now.estimate.total - found.estimate.total, found


def _software(work: Workload, setting: Setting) -> Iterator[_Try]:
    """Yield what can be changed on the same chips, in every combination."""
    for (a, spread), (b, tp), (c, rows), (d, remat) in product(
        _spreads(setting), _tensor(setting), _rows(work, setting), _remats(setting)
    ):
        if a + b + c + d == 0:
            continue
        chosen = replace(setting, policy=replace(spread, tp=tp), rows=rows, remat=remat)
        again = REMAT[remat] - REMAT[setting.remat]
        cost = SPREADS[a] + b * DOUBLE_TP + c * HALVING + again
        # Not zero on the way to fsdp: each is a direction of its own.
        yield _Try(chosen, (int(a == 1), int(a == 2), b, c, d, 0, 0), cost)


def _hardware(setting: Setting, fitting: Sequence[Chip], others: Sequence[Chip]) -> Iterator[_Try]:
    """Yield other chips, and more of them with what spreads the model over them."""
    for step, times in enumerate(_TIMES, 1):
        more = replace(setting, devices=setting.devices * times)
        for (a, spread), (b, tp) in product(_spreads(more), _tensor(more)):
            chosen = replace(more, policy=replace(spread, tp=tp))
            cost = step * MORE_CHIPS + SPREADS[a] + b * DOUBLE_TP
            yield _Try(chosen, (int(a == 1), int(a == 2), b, 0, 0, step, 0), cost)
    larger = sorted(
        {chip for chip in others if _larger(chip, setting.chip) and chip not in fitting},
        key=lambda chip: (chip.memory_bytes, chip.name),
    )
    for step, chip in enumerate([*fitting[:1], *larger], 1):
        kept = chip in fitting
        cost = FEWER_KINDS if kept else OTHER_CHIP + _slower(chip, setting.chip)
        yield _Try(replace(setting, chip=chip), (0, 0, 0, 0, 0, 0, step), cost)


def _both(work: Workload, setting: Setting) -> Iterator[_Try]:
    """Yield more chips with everything else: for what fits in no simpler way."""
    for step, times in enumerate(_TIMES, 1):
        for one in _software(work, replace(setting, devices=setting.devices * times)):
            yield replace(one, rungs=(*one.rungs[:5], step, 0), cost=one.cost + step * MORE_CHIPS)


def _spreads(setting: Setting) -> list[tuple[int, ShardingPolicy]]:
    policy = setting.policy
    if policy.fsdp:
        return [(0, policy)]
    fsdp = (2, policy.changed(fsdp=True, zero=False))
    if policy.zero:
        return [(0, policy), fsdp]
    return [(0, policy), (1, policy.changed(zero=True)), fsdp]


def _tensor(setting: Setting) -> list[tuple[int, int]]:
    tp = setting.policy.tp
    wider = [tp * 2**step for step in range(1, 4) if tp * 2**step <= _WIDEST_TP]
    return [(0, tp), *((step, value) for step, value in enumerate(wider, 1))]


def _rows(work: Workload, setting: Setting) -> list[tuple[int, int | None]]:
    """Return smaller micro-batches, and by how many halvings; of equal ones the largest."""
    if work.batch_size % setting.mesh.data:
        return [(0, setting.rows)]
    now = micro_batch(work, setting)
    steps: dict[int, int] = {}
    for rows in divisors(work.batch_size // setting.mesh.data):
        if rows < now:
            steps[math.ceil(math.log2(now / rows))] = rows
    return [(0, setting.rows), *sorted(steps.items())]


def _remats(setting: Setting) -> list[tuple[int, Remat]]:
    return list(enumerate(REMATS[REMATS.index(setting.remat) :]))


def _larger(chip: Chip, than: Chip | None) -> bool:
    if than is None or chip.kind != than.kind:
        return False
    return (chip.memory_bytes or 0) > (than.memory_bytes or 0)


def _slower(chip: Chip, than: Chip | None) -> float:
    peaks = [one.peak_flops("bfloat16") if one else None for one in (chip, than)]
    mine, theirs = peaks
    return max(0.0, 1 - mine / theirs) if mine and theirs else 0.0


def _changes(before: Setting, after: Setting, unfit: Sequence[Chip]) -> Iterator[str]:
    if after.chip is not None and after.chip != before.chip:
        without = ", ".join(one.name for one in unfit)
        yield f"without {without}" if without else f"chip {after.chip.name}"
    if after.devices != before.devices:
        yield "1 chip" if after.devices == 1 else f"{after.devices} chips"
    if after.policy.tp != before.policy.tp:
        yield f"tp {after.policy.tp}"
    for name in ("zero", "fsdp"):
        if getattr(after.policy, name) != getattr(before.policy, name):
            yield name if getattr(after.policy, name) else f"no {name}"
    if after.rows != before.rows:
        yield f"micro-batch {'auto' if after.rows is None else after.rows}"
    if after.remat != before.remat:
        yield f"remat {after.remat}"
