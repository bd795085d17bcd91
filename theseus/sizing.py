"""What a recipe needs of the hardware that it asks for: the memory of each device, and what fits.

    found = sized(spec, workload_of(spec))
    print(found)

The command line and the hardware widget show the same.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from omegaconf import OmegaConf

from theseus.combobulation import Combobulation
from theseus.errors import UserError
from theseus.hardware.chips import Chip, chip, chips
from theseus.hardware.choices import Choices, choices, obstacle
from theseus.hardware.fitting import REMATS, Fit, Setting, Workload, fit
from theseus.hardware.memory import in_words
from theseus.hardware.remedies import Way, ways_to_fit, ways_to_train
from theseus.hardware.resources import Resources
from theseus.job import Job

ROWS, REMAT = "training.per_device_batch_size", "training.remat"

_CPU = "cpu"
_NOWHERE = "/nowhere"  # the root of a recipe that is only looked at


class NoEstimateError(UserError):
    """The memory of this job cannot be estimated here; the message says why."""


@dataclass(frozen=True)
class Sizing:
    """A recipe beside the hardware that it asks for.

    Attributes
    ----------
    work
        None while it is not known, and for jobs that train nothing.
    """

    spec: Combobulation
    work: Workload | None = None

    @cached_property
    def named(self) -> tuple[Chip, ...]:
        """The chips that the recipe names; `cpu` alone where it asks for none."""
        asked = self.spec.resources
        if on_processors(asked):
            return (chip(_CPU),)
        return tuple(chip(name) for name in asked.chips if name != _CPU)

    @cached_property
    def setting(self) -> Setting:
        """What it asks for; of several chips the one that has least memory left."""
        base = setting_of(self.spec)
        if self.work is None or len(self.named) < 2 or obstacle(self.work, base):
            return base
        work = self.work
        left = {one: fit(work, replace(base, chip=one)).free for one in self.named}
        return replace(base, chip=min(left, key=lambda one: _or_most(left[one])))

    @cached_property
    def obstacle(self) -> str:
        """Why it cannot be trained so; empty when it can."""
        return obstacle(self.work, self.setting)

    @cached_property
    def choices(self) -> Choices:
        """What could be chosen instead of each part, and why not."""
        return choices(self.work, self.setting)

    def fit_on(self, one: Chip | None) -> Fit | None:
        """Return what a chip would hold; None while nothing is known."""
        if self.work is None or self.obstacle:
            return None
        return fit(self.work, replace(self.setting, chip=one), self.spec.resources.memory)

    @cached_property
    def fit(self) -> Fit | None:
        """What the chip that has least memory left would hold."""
        return self.fit_on(self.setting.chip)

    @cached_property
    def ways(self) -> list[Way]:
        """How to make it fit, those that cost least speed first; none when it fits.

        Where it cannot be trained at all: the nearest that can.
        """
        found = self.fit
        if self.work is not None and self.obstacle:
            return ways_to_train(self.work, self.setting, capacity=self.spec.resources.memory)
        if self.work is None or found is None or found.word not in ("tight", "does not fit"):
            return []
        named = () if on_processors(self.spec.resources) else self.named
        ways = ways_to_fit(
            self.work,
            self.setting,
            named=named,
            others=chips(),
            capacity=self.spec.resources.memory,
            count=8,
        )
        settable = keys_of(self.spec)
        return [way for way in ways if _needed_keys(self.setting, way.setting) <= settable][:3]

    def lines(self) -> list[str]:
        """Return what there is to say, a line each."""
        if self.obstacle:
            nearest = [f"what can is {way}" for way in self.ways]
            return [f"cannot be trained so: {self.obstacle}", *nearest]
        found = self.fit
        if found is None:
            return []
        parts = {name: count for name, count in found.estimate.parts.items() if count}
        lines = [str(self.fit_on(one)) for one in self.named] or [str(found)]
        lines.append(", ".join(f"{name} {in_words(count)}" for name, count in parts.items()))
        lines += [f"to make it fit, {way}" for way in self.ways]
        if found.word == "does not fit" and not self.ways:
            lines.append("no other choice of hardware makes it fit: a smaller model would")
        return lines

    def plain(self) -> dict[str, Any]:
        """Return it as plain values; sizes are bytes on each device."""
        found = self.fit
        return {
            "obstacle": self.obstacle or None,
            "mesh": None if self.obstacle else str(self.setting.mesh),
            "parts": found.estimate.parts if found else None,
            "total": found.estimate.total if found else None,
            "chips": {
                one.name: {"memory": on.memory, "fits": on.word}
                for one in self.named
                if (on := self.fit_on(one))
            },
            "ways": [
                {"changes": list(way.changes), "saved": way.saved, "total": way.fit.estimate.total}
                for way in self.ways
            ],
        }

    def __str__(self) -> str:
        first, *rest = self.lines() or ["not estimated"]
        return "\n".join([f"  memory    {first}", *(f"            {line}" for line in rest)])


def _or_most(free: int | None) -> int:
    return sys.maxsize if free is None else free


def on_processors(asked: Resources) -> bool:
    """Say whether a request is for no chips at all."""
    if asked.gpus == 0 or (asked.chips and set(asked.chips) == {_CPU}):
        return True
    return asked.gpus is None and not asked.chips


def devices_of(asked: Resources) -> int:
    """Return how many devices a request comes to: as many chips as named, or one per node."""
    return asked.nodes if on_processors(asked) or asked.gpus is None else asked.gpus


def setting_of(spec: Combobulation) -> Setting:
    """Return what a recipe asks for, with the first chip that it names."""
    asked = spec.resources
    names = [_CPU] if on_processors(asked) else [name for name in asked.chips if name != _CPU]
    rows, remat = value_of(spec, ROWS), value_of(spec, REMAT)
    return Setting(
        devices=devices_of(asked),
        nodes=asked.nodes,
        policy=asked.sharding,
        chip=chip(names[0]) if names else None,
        rows=rows if isinstance(rows, int) else None,
        remat=next((one for one in REMATS if one == remat), "none"),
    )


def value_of(spec: Combobulation, key: str) -> Any:
    """Return one value of the configuration; None where there is none."""
    return OmegaConf.select(spec.config, key)


def keys_of(spec: Combobulation) -> set[str]:
    """Return which of the keys that hardware decides about the job has."""
    return {key for key in (ROWS, REMAT) if _has(spec.values, key)}


def _has(values: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def _needed_keys(before: Setting, after: Setting) -> set[str]:
    needed = {ROWS} if before.rows != after.rows else set()
    return needed | ({REMAT} if before.remat != after.remat else set())


def changes_of(before: Setting, way: Way) -> dict[str, Any]:
    """Return the configuration values that a way changes."""
    after = way.setting
    found: dict[str, Any] = {}
    if after.rows != before.rows:
        found[ROWS] = after.rows
    if after.remat != before.remat:
        found[REMAT] = after.remat
    return found


def resources_of(found: Sizing, way: Way) -> Resources:
    """Return the request that a way leads to."""
    asked, before, after = found.spec.resources, found.setting, way.setting
    if after.devices != before.devices:
        asked = replace(asked, gpus=after.devices, sharding=after.policy)
    asked = replace(asked, sharding=after.policy)
    if after.chip == before.chip or after.chip is None:
        return asked
    fitting = [one.name for one in found.named if (on := found.fit_on(one)) and on.word == "fits"]
    return replace(asked, chips=tuple(fitting) or (after.chip.name,))


def with_values(spec: Combobulation, values: Mapping[str, Any]) -> Combobulation:
    """Return a recipe with other values under dotted keys that it has."""
    if not values:
        return spec
    nested = copy.deepcopy(dict(spec.values))
    for key, value in values.items():
        *groups, name = key.split(".")
        group: Any = nested
        for part in groups:
            group = group[part]
        group[name] = value
    changes = None if spec.changes is None else {**spec.changes, **values}
    return replace(spec, values=nested, changes=changes)


# What a job is made of


def workload_of(spec: Combobulation, *, trusting: bool = False) -> Workload:
    """Return what the job of a recipe is made of; JAX is imported, and nothing is allocated.

    Parameters
    ----------
    trusting
        Whether a class may be loaded that is not known here yet: one that came with a file.

    Raises
    ------
    UserError
        When the job trains nothing, or its configuration cannot be trained with.
    """
    if not (trusting or is_known_here(spec)):
        msg = f"the class of {spec.job.name} came with a file and is not loaded before it is run"
        raise NoEstimateError(msg)
    return workload_of_job(spec.create(_NOWHERE))


def workload_of_job(job: Job) -> Workload:
    """Return what a job is made of; see `workload_of`."""
    ask = getattr(job, "workload", None)
    if ask is None:
        msg = f"{type(job).__name__} trains no model: there is no memory to estimate"
        raise NoEstimateError(msg)
    work: Workload = ask()
    return work


def is_known_here(spec: Combobulation) -> bool:
    """Say whether the class of a recipe is loaded already, or is built in."""
    job = spec.job
    if job.path is None:
        return True
    module, _, name = job.path.partition(":")
    here: Any = sys.modules.get(module)
    for part in name.split("."):
        here = getattr(here, part, None)
    if here is None or job.travelling is None:
        return here is not None
    from theseus.runs.code import code_digest

    return code_digest(here) == job.travelling.digest


def told(spec: Combobulation) -> str:
    """Return what the command line says of the memory of a recipe that asks for chips, or nothing."""
    if on_processors(spec.resources):
        return ""
    try:
        return str(sized(spec, workload_of(spec)))
    except NoEstimateError:
        return ""
    except UserError as error:
        return f"  memory    not estimated: {error}"


def plain(spec: Combobulation) -> dict[str, Any] | None:
    """Return the same as plain values; None where there is nothing to say."""
    if on_processors(spec.resources):
        return None
    try:
        return sized(spec, workload_of(spec)).plain()
    except NoEstimateError:
        return None
    except UserError as error:
        return {"error": str(error)}


def sized(spec: Combobulation, work: Workload | None) -> Sizing:
    """Return a recipe beside the hardware that it asks for."""
    return Sizing(spec, work)
