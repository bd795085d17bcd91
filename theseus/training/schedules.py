"""Learning rates as pure functions of the step, counted in optimizer steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp

from theseus.config import ConfigError, field

LearningRate = Callable[[jax.Array | int], jax.Array]


class Schedule(Protocol):
    """A dataclass of fields (the schema) that makes the learning rate of a run (the factory)."""

    def build(self, steps: int) -> LearningRate:
        """Return step → learning rate for a run of `steps` steps, or raise `ConfigError`."""


def _peak() -> float:
    peak: float = field(
        "optimization/lr", default=6e-4, ge=0.0, log=True, help="peak learning rate"
    )
    return peak


def _warmup() -> float:
    share: float = field(
        "optimization/warmup_pct",
        default=0.01,
        ge=0.0,
        le=1.0,
        help="share of the steps over which the learning rate rises",
    )
    return share


def _final() -> float:
    share: float = field(
        "optimization/final_lr_frac",
        default=0.1,
        ge=0.0,
        le=1.0,
        help="learning rate of the last step, as a share of the peak",
    )
    return share


@dataclass(frozen=True)
class WSD:
    """Warm up, stay, decay linearly (Hu et al., arXiv:2404.06395)."""

    lr: float = _peak()
    warmup_pct: float = _warmup()
    decay_pct: float = field(
        "optimization/decay_pct",
        default=0.2,
        ge=0.0,
        le=1.0,
        help="share of the steps, at the end, over which the learning rate falls",
    )
    final_lr_frac: float = _final()

    def build(self, steps: int) -> LearningRate:
        """Return step → learning rate; refuse a warm-up and a decay that overlap."""
        warmup, decay = round(self.warmup_pct * steps), round(self.decay_pct * steps)
        if self.warmup_pct + self.decay_pct > 1.0:
            msg = (
                f"optimization.warmup_pct = {self.warmup_pct:g} and optimization.decay_pct = "
                f"{self.decay_pct:g} overlap: together they may be 1 at the most"
            )
            raise ConfigError(msg, "optimization.decay_pct")

        def learning_rate(step: jax.Array | int) -> jax.Array:
            rising = (step + 1) / max(warmup, 1)
            falling = 1 - (1 - self.final_lr_frac) * (step + 1 - (steps - decay)) / max(decay, 1)
            plateau = jnp.where(step < steps - decay, 1.0, falling)
            return self.lr * jnp.where(step < warmup, rising, plateau)

        return learning_rate


@dataclass(frozen=True)
class Cosine:
    """Warm up, then half a cosine down (Loshchilov & Hutter, arXiv:1608.03983)."""

    lr: float = _peak()
    warmup_pct: float = _warmup()
    final_lr_frac: float = _final()

    def build(self, steps: int) -> LearningRate:
        """Return step → learning rate."""
        warmup = round(self.warmup_pct * steps)

        def learning_rate(step: jax.Array | int) -> jax.Array:
            rising = (step + 1) / max(warmup, 1)
            gone = jnp.clip((step + 1 - warmup) / max(steps - warmup, 1), 0.0, 1.0)
            low = self.final_lr_frac
            falling = low + (1 - low) * 0.5 * (1 + jnp.cos(jnp.pi * gone))
            return self.lr * jnp.where(step < warmup, rising, falling)

        return learning_rate
