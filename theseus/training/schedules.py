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


def _decay() -> float:
    share: float = field(
        "optimization/decay_pct",
        default=0.2,
        ge=0.0,
        le=1.0,
        help="share of the steps, at the end, over which the learning rate falls",
    )
    return share


def _check_phases(warmup: float, decay: float) -> None:
    if warmup + decay > 1.0:
        msg = (
            f"optimization.warmup_pct = {warmup:g} and optimization.decay_pct = {decay:g} "
            "overlap: together they may be 1 at the most"
        )
        raise ConfigError(msg, "optimization.decay_pct")


@dataclass(frozen=True)
class Constant:
    """Warm up, then stay."""

    lr: float = _peak()
    warmup_pct: float = _warmup()

    def build(self, steps: int) -> LearningRate:
        """Return step → learning rate."""
        warmup = round(self.warmup_pct * steps)

        def learning_rate(step: jax.Array | int) -> jax.Array:
            return self.lr * jnp.minimum((step + 1) / max(warmup, 1), 1.0)

        return learning_rate


@dataclass(frozen=True)
class WSD:
    """Warm up, stay, decay linearly (Hu et al., arXiv:2404.06395)."""

    lr: float = _peak()
    warmup_pct: float = _warmup()
    decay_pct: float = _decay()
    final_lr_frac: float = _final()

    def build(self, steps: int) -> LearningRate:
        """Return step → learning rate; refuse a warm-up and a decay that overlap."""
        _check_phases(self.warmup_pct, self.decay_pct)
        warmup, decay = round(self.warmup_pct * steps), round(self.decay_pct * steps)

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


@dataclass(frozen=True)
class WSDS:
    """WSD in cycles: each ends with a decay, and the next goes on at the peak.

    The end of each cycle is a model worth keeping (Wen et al., arXiv:2410.05192).
    """

    lr: float = _peak()
    warmup_pct: float = _warmup()
    decay_pct: float = field(
        "optimization/decay_pct",
        default=0.2,
        ge=0.0,
        le=1.0,
        help="share of each cycle, at its end, over which the learning rate falls",
    )
    cycles: int = field(
        "optimization/cycles", default=3, ge=1, help="cycles of equal length, each with a decay"
    )
    final_lr_frac: float = _final()

    def build(self, steps: int) -> LearningRate:
        """Return step → learning rate; refuse phases that overlap and cycles without a step."""
        if self.cycles > steps:
            msg = f"optimization.cycles = {self.cycles} is more than the {steps} steps of the run"
            raise ConfigError(msg, "optimization.cycles")
        # The warm-up is a share of all steps, and must leave the first cycle room to decay.
        _check_phases(self.warmup_pct * self.cycles, self.decay_pct)
        warmup = round(self.warmup_pct * steps)

        def learning_rate(step: jax.Array | int) -> jax.Array:
            cycle = jnp.minimum((step * self.cycles) // steps, self.cycles - 1)
            first = -(-cycle * steps // self.cycles)
            length = -(-(cycle + 1) * steps // self.cycles) - first
            decay = jnp.round(self.decay_pct * length)
            gone = step + 1 - first - (length - decay)
            falling = 1 - (1 - self.final_lr_frac) * gone / jnp.maximum(decay, 1)
            plateau = jnp.where(gone > 0, falling, 1.0)
            return self.lr * jnp.where(step < warmup, (step + 1) / max(warmup, 1), plateau)

        return learning_rate
