"""How a model is spread over devices: the policy that a user chooses, and the rules that follow.

Arrays name their axes by what they mean (`embed`, `heads`); one table says over which axis of the
device mesh each of them is spread. Everything here is arithmetic: no device is needed, and JAX is
not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from theseus.errors import UserError, did_you_mean


class ShardingError(UserError):
    """A sharding policy that means nothing, or that does not fit the model or the devices."""


@dataclass(frozen=True)
class ShardingPolicy:
    """Three choices, each off by default.

    Attributes
    ----------
    tp
        Tensor parallelism: how many devices share one copy of each layer.
    fsdp
        Whether parameters, gradients and optimizer state are spread over the data axis.
    zero
        Whether the optimizer state alone is spread over the data axis.
    """

    tp: int = 1
    fsdp: bool = False
    zero: bool = False

    def __post_init__(self) -> None:
        tp: Any = self.tp
        if isinstance(tp, bool) or not isinstance(tp, int) or tp < 1:
            msg = f"tp: a whole number of devices, 1 or more, not {tp!r}"
            raise ShardingError(msg)
        for name in ("fsdp", "zero"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                msg = f"{name}: True or False, not {value!r}"
                raise ShardingError(msg)

    def changed(
        self, *, tp: int | None = None, fsdp: bool | None = None, zero: bool | None = None
    ) -> ShardingPolicy:
        """Return the policy with these choices; None leaves one as it is."""
        given = {"tp": tp, "fsdp": fsdp, "zero": zero}
        return replace(self, **{name: v for name, v in given.items() if v is not None})  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, int | bool]:
        """Return the policy as plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ShardingPolicy:
        """Return the policy that `to_dict` wrote; what is left out keeps its default."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                msg = f"sharding has no '{name}'{did_you_mean(str(name), known)}"
                raise ShardingError(f"{msg} (known: {', '.join(known)})")
        return cls(**values)

    def __str__(self) -> str:
        parts = [f"tp {self.tp}"] if self.tp > 1 else []
        parts += [name for name in ("fsdp", "zero") if getattr(self, name)]
        return ", ".join(parts) or "none"


DATA, TENSOR = "data", "tensor"
MESH_AXES = (DATA, TENSOR)  # neighbouring devices share layers: they have the fastest links

# Logical axis → axis of the mesh. What is not here is on every device.
RULES: Mapping[str, str] = {
    # rows of the batch: data parallelism (tokens, activations, logits)
    "batch": DATA,
    # tensor parallelism (Shoeybi et al., arXiv:1909.08053)
    "vocab": TENSOR,
    "heads": TENSOR,
    "mlp": TENSOR,
}
# What parameters, gradients and optimizer state are spread over beside: ZeRO (arXiv:1910.02054).
SPREAD_RULES: Mapping[str, str] = {**RULES, "embed": DATA}

Axes = tuple[str | None, ...]


@dataclass(frozen=True)
class MeshShape:
    """How many devices there are along each axis of the mesh."""

    data: int = 1
    tensor: int = 1

    @classmethod
    def of(cls, policy: ShardingPolicy, devices: int) -> MeshShape:
        """Return the mesh of a policy over a number of devices.

        Raises
        ------
        ShardingError
            When `tp` does not divide the devices, with the values that do.
        """
        if devices % policy.tp:
            fitting = [str(tp) for tp in divisors(devices)]
            msg = (
                f"tp={policy.tp} does not divide {devices} {_plural(devices, 'device')}; "
                f"possible: {', '.join(fitting)}"
            )
            raise ShardingError(msg)
        return cls(devices // policy.tp, policy.tp)

    @property
    def devices(self) -> int:
        """How many devices there are in all."""
        return self.data * self.tensor

    def along(self, axis: str | None) -> int:
        """Return the number of devices along one axis of the mesh; 1 for None."""
        return {DATA: self.data, TENSOR: self.tensor}[axis] if axis else 1

    def __str__(self) -> str:
        return f"{self.data} {DATA} × {self.tensor} {TENSOR}"


def parameter_rules(policy: ShardingPolicy) -> Mapping[str, str]:
    """Return the table for parameters: spread over the data axis with `fsdp`."""
    return SPREAD_RULES if policy.fsdp else RULES


def optimizer_rules(policy: ShardingPolicy) -> Mapping[str, str]:
    """Return the table for gradients and optimizer state: spread with `fsdp` or `zero`."""
    return SPREAD_RULES if policy.fsdp or policy.zero else RULES


def partition(axes: Axes, rules: Mapping[str, str] = RULES) -> tuple[str | None, ...]:
    """Return the mesh axis of each dimension of an array: what a `PartitionSpec` is made of.

    A mesh axis is given once: of two dimensions that want it, the first has it.
    """
    taken: set[str] = set()
    chosen: list[str | None] = []
    for axis in axes:
        wanted = rules.get(axis) if axis else None
        chosen.append(None if wanted in taken else wanted)
        taken.update([wanted] if wanted else [])
    return tuple(chosen)


def shard_shape(
    shape: tuple[int, ...], axes: Axes, rules: Mapping[str, str], mesh: MeshShape
) -> tuple[int, ...]:
    """Return the shape of one device's part of an array."""
    parts = [mesh.along(axis) for axis in partition(axes, rules)]
    return tuple(size // part for size, part in zip(shape, parts, strict=True))


@dataclass(frozen=True)
class Indivisible:
    """An axis that cannot be spread evenly: `size` over `parts` devices along a mesh axis."""

    axis: str
    size: int
    mesh_axis: str
    parts: int


def indivisible(
    arrays: Iterable[tuple[tuple[int, ...], Axes]], rules: Mapping[str, str], mesh: MeshShape
) -> list[Indivisible]:
    """Return what stands in the way of spreading these arrays (shape, axes), each axis once."""
    found: dict[tuple[str, int], Indivisible] = {}
    for shape, axes in arrays:
        for size, axis, mesh_axis in zip(shape, axes, partition(axes, rules), strict=True):
            parts = mesh.along(mesh_axis)
            if axis and mesh_axis and size % parts:
                found[axis, size] = Indivisible(axis, size, mesh_axis, parts)
    return list(found.values())


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number, the least first."""
    return [part for part in range(1, number + 1) if number % part == 0]


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
