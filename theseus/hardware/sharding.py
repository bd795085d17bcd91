"""How a model is spread over devices: the policy that a user chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from theseus.errors import UserError, did_you_mean


class ShardingError(UserError):
    """A sharding policy that means nothing."""


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
