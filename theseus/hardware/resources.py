"""What a run asks for: chips, memory, machines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from theseus import _plain
from theseus._plain import SpecError
from theseus.hardware.chips import chip
from theseus.hardware.sharding import ShardingPolicy


@dataclass(frozen=True)
class Resources:
    """What a run asks for; None and empty mean "any".

    Attributes
    ----------
    chips
        Acceptable chips, the most wanted first.
    gpus
        How many chips in all, over all nodes; 0 asks for none.
    cpus, memory
        Processor cores and bytes of main memory, per node.
    clusters, avoid
        The only clusters that may be used, and those that may not.
    nodes
        How many machines the chips are spread over, evenly.
    """

    chips: tuple[str, ...] = ()
    gpus: int | None = None
    cpus: int | None = None
    memory: int | None = None
    clusters: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    nodes: int = 1
    sharding: ShardingPolicy = field(default_factory=ShardingPolicy)

    def __post_init__(self) -> None:
        for name in self.chips:
            chip(_plain.text("chip", name))
        _plain.count("gpus", self.gpus, least=0)
        _plain.count("cpus", self.cpus, least=1)
        _plain.count("memory", self.memory, least=1)
        _plain.count("nodes", self.nodes, least=1, optional=False)
        for name in (*self.clusters, *self.avoid):
            _plain.text("cluster", name)
        both = sorted(set(self.clusters) & set(self.avoid))
        if both:
            msg = f"cluster '{both[0]}' is both asked for and avoided"
            raise SpecError(msg)
        if self.gpus and self.gpus % self.nodes:
            msg = f"{self.gpus} chips cannot be spread evenly over {self.nodes} nodes"
            raise SpecError(msg)
        if self.gpus and self.gpus % self.sharding.tp:
            fitting = [str(tp) for tp in range(1, self.gpus + 1) if self.gpus % tp == 0]
            msg = (
                f"tp={self.sharding.tp} does not divide {self.gpus} chips; "
                f"possible: {', '.join(fitting)}"
            )
            raise SpecError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain values, for a file."""
        plain: dict[str, Any] = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "sharding"
        }
        plain |= {name: list(plain[name]) for name in ("chips", "clusters", "avoid")}
        return {**plain, "sharding": self.sharding.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Resources:
        """Return what `to_dict` wrote; what is left out keeps its default."""
        _plain.only("resources", values, [item.name for item in fields(cls)])
        given = dict(values)
        for name in ("chips", "clusters", "avoid"):
            if name in given:
                given[name] = tuple(_plain.items(f"resources.{name}", given[name]))
        if "memory" in given:
            given["memory"] = parse_size(given["memory"])
        if "sharding" in given:
            policy = _plain.mapping("resources.sharding", given["sharding"])
            given["sharding"] = ShardingPolicy.from_dict(policy)
        return cls(**given)


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"\s*(\d+(?:[._]\d+)*)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def parse_size(size: str | int | None) -> int | None:
    """Return a number of bytes: `"64G"`, `"64 GiB"` and `64 * 2**30` are the same."""
    if size is None or (isinstance(size, int) and not isinstance(size, bool)):
        return size
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None:
        msg = f"memory: a size such as '64G', or a number of bytes, not {size!r}"
        raise SpecError(msg)
    try:
        number = float(found[1].replace("_", ""))
    except ValueError:
        msg = f"memory: a size such as '64G', or a number of bytes, not {size!r}"
        raise SpecError(msg) from None
    return round(number * _UNITS[found[2].lower()])
