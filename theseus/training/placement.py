"""Which device holds what: the mesh of a run, and the sharding of everything in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from theseus.config import ConfigError
from theseus.hardware.sharding import (
    DATA,
    MESH_AXES,
    RULES,
    TENSOR,
    Axes,
    Indivisible,
    MeshShape,
    ShardingError,
    ShardingPolicy,
    divisors,
    indivisible,
    optimizer_rules,
    parameter_rules,
    partition,
)

Path = tuple[str, ...]

# Where the size of an axis is set, for messages.
KEYS = {
    "embed": "architecture.n_embd",
    "heads": "architecture.n_head",
    "mlp": "architecture.intermediate_size",
    "vocab": "architecture.vocab_size",
}


@dataclass(frozen=True)
class Placement:
    """The mesh of a run and the policy by which arrays are spread over it."""

    mesh: Mesh
    policy: ShardingPolicy

    @classmethod
    def over(cls, policy: ShardingPolicy, devices: list[jax.Device] | None = None) -> Placement:
        """Return the placement over these devices; all of all hosts when left out.

        Raises
        ------
        ShardingError
            When `tp` does not divide their number.
        """
        devices = jax.devices() if devices is None else devices
        shape = MeshShape.of(policy, len(devices))
        auto = (AxisType.Auto,) * len(MESH_AXES)
        mesh = jax.make_mesh((shape.data, shape.tensor), MESH_AXES, auto, devices=devices)
        return cls(mesh, policy)

    @property
    def shape(self) -> MeshShape:
        """How many devices there are along each axis."""
        return MeshShape(self.mesh.shape[DATA], self.mesh.shape[TENSOR])

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let models constrain their activations to this mesh while they are traced."""
        with jax.set_mesh(self.mesh):
            yield

    def everywhere(self) -> NamedSharding:
        """Return the sharding of what every device has whole."""
        return NamedSharding(self.mesh, PartitionSpec())

    def rows(self, before: int = 0) -> NamedSharding:
        """Return the sharding of a batch (…, R, T) with `before` dimensions before its rows."""
        return NamedSharding(self.mesh, PartitionSpec(*[None] * before, DATA, None))

    def parameters(self, params: Any, axes: Mapping[Path, Axes]) -> Any:
        """Return the sharding of each parameter."""
        return self._each(params, axes, parameter_rules(self.policy))

    def optimizer(self, tree: Any, axes: Mapping[Path, Axes]) -> Any:
        """Return the sharding of each leaf of gradients or of an optimizer's state.

        A leaf that has the path of a parameter at the end of its own, and its number of
        dimensions, is spread as that parameter's; any other is on every device.
        """
        return self._each(tree, axes, optimizer_rules(self.policy))

    def _each(self, tree: Any, axes: Mapping[Path, Axes], rules: Mapping[str, str]) -> Any:
        def sharding(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
            names = axes_of(path, leaf, axes)
            return NamedSharding(self.mesh, PartitionSpec(*partition(names, rules)))

        return jax.tree_util.tree_map_with_path(sharding, tree)

    def check(self, params: Any, axes: Mapping[Path, Axes]) -> None:
        """Refuse parameters that cannot be spread evenly, naming the values that can.

        Raises
        ------
        ConfigError
            With the key of the axis that does not divide.
        """
        arrays = [
            (leaf.shape, axes_of(path, leaf, axes))
            for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        ]
        # With fsdp or zero the table of the optimizer covers that of the parameters.
        found = indivisible(arrays, optimizer_rules(self.policy), self.shape)
        if found:
            sizes = [
                size
                for shape, names in arrays
                for size, axis in zip(shape, names, strict=True)
                if axis and RULES.get(axis) == TENSOR
            ]
            raise self._refusal(found[0], sizes)

    def _refusal(self, wrong: Indivisible, tensor_sizes: list[int]) -> ShardingError | ConfigError:
        key = KEYS.get(wrong.axis)
        what = f"{key} = {wrong.size}" if key else f"an axis `{wrong.axis}` of {wrong.size}"
        low = wrong.size // wrong.parts * wrong.parts
        near = " or ".join(str(size) for size in (low, low + wrong.parts) if size)
        if wrong.mesh_axis == TENSOR:
            able = [
                tp
                for tp in divisors(self.shape.devices)
                if all(size % tp == 0 for size in tensor_sizes)
            ]
            told = f"tp={wrong.parts}"
            others = f"tp can be {', '.join(map(str, able))}"
        else:
            told = "fsdp" if self.policy.fsdp else "zero"
            told = f"{told} over {wrong.parts} devices"
            others = f"switch {'fsdp' if self.policy.fsdp else 'zero'} off"
        msg = f"{what} cannot be divided by {told}; {others}, or set it to {near}"
        return ConfigError(msg, key) if key else ShardingError(msg)


def logical_axes(boxed: Any) -> dict[Path, Axes]:
    """Return, for boxed (abstract) parameters, the names of the axes of those that have some."""
    leaves = jax.tree_util.tree_leaves_with_path(
        boxed, is_leaf=lambda leaf: isinstance(leaf, nn.meta.AxisMetadata)
    )
    return {
        path_of(path): tuple(leaf.names)
        for path, leaf in leaves
        if getattr(leaf, "names", None) is not None
    }


def axes_of(path: tuple[Any, ...], leaf: Any, axes: Mapping[Path, Axes]) -> Axes:
    """Return the axes of a leaf whose path ends in that of a parameter; unnamed where none does."""
    parts = path_of(path)
    for start in range(len(parts)):
        found = axes.get(parts[start:])
        if found is not None and len(found) == len(leaf.shape):
            return found
    return (None,) * len(leaf.shape)


def path_of(path: tuple[Any, ...]) -> Path:
    """Return the path of a leaf as plain names."""
    return tuple(
        str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", part))))
        for part in path
    )
