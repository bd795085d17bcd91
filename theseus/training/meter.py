"""How fast a run trains: tokens per second of training, and of nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

# Steps are read from the device a few at once: over a shorter time their speed would be chance.
SHORTEST_SECONDS = 0.5


class Meter:
    """Measure tokens per second between reports, leaving out compilation, validation and saving.

    Parameters
    ----------
    tokens_per_step
        Tokens of one optimizer step, over all devices.
    flops_per_token
        As `theseus.training.flops` counts; None when the model does not tell.
    peak
        FLOP/s that all devices together can reach; None when it is not known.
    """

    def __init__(
        self,
        tokens_per_step: int,
        flops_per_token: float | None = None,
        peak: float | None = None,
    ) -> None:
        self._tokens_per_step = tokens_per_step
        self._flops_per_token = flops_per_token
        self._peak = peak
        self._began = time.perf_counter()
        self._left_out = 0.0
        self._steps = 0
        self._speed: float | None = None
        self.compile_seconds = 0.0

    def start(self) -> None:
        """Begin a stretch of training."""
        self._began, self._left_out, self._steps = time.perf_counter(), 0.0, 0

    def step(self) -> None:
        """Count one finished step."""
        self._steps += 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of this block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._left_out += time.perf_counter() - began

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Leave out the time of this block, and remember how long it was."""
        began = time.perf_counter()
        with self.paused():
            yield
        self.compile_seconds += time.perf_counter() - began

    def flops_share(self, tokens_per_second: float) -> float | None:
        """Return the share of the peak that this speed is (MFU); None where the peak is unknown."""
        if not self._flops_per_token or not self._peak:
            return None
        return tokens_per_second * self._flops_per_token / self._peak

    def tokens_per_second(self) -> float | None:
        """Return the speed since the last call that was long enough ago; None before the first."""
        seconds = time.perf_counter() - self._began - self._left_out
        if self._steps and (self._speed is None or seconds >= SHORTEST_SECONDS):
            self._speed = self._steps * self._tokens_per_step / max(seconds, 1e-9)
            if seconds >= SHORTEST_SECONDS:
                self.start()
        return self._speed
