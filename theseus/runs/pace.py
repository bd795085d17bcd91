"""How fast a job is going, and how long it will still take."""

from __future__ import annotations

from collections import deque

WINDOW = 60.0  # seconds: long enough to hold a validation or a checkpoint, short enough to follow


class Pace:
    """The rate of something that counts up, over the last while."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()
        self._first = True
        self._unit = ""

    def add(self, time: float, done: float, unit: str) -> None:
        """Take in that at `time` (seconds of any steady clock) so much was done."""
        samples = self._samples
        if samples and (done < samples[-1][1] or unit != self._unit):
            samples.clear()  # another phase of the job
            self._first = True
        self._unit = unit
        if not samples or done > samples[-1][1]:
            samples.append((time, done))
        if self._first and len(samples) == 3:
            # The first step compiles and warms up: it says nothing about the others.
            samples.popleft()
            self._first = False
        while len(samples) > 2 and time - samples[0][0] > WINDOW:
            samples.popleft()

    @property
    def rate(self) -> float | None:
        """Units per second, or None until there is more to go by than the first step."""
        if self._first or len(self._samples) < 2:
            return None
        (start, before), (end, after) = self._samples[0], self._samples[-1]
        return (after - before) / (end - start) if end > start else None

    def remaining(self, done: float, total: float | None) -> float | None:
        """Return an estimate of the seconds until `total`, or None when there is none."""
        rate = self.rate
        if total is None or not rate:
            return None
        return max(total - done, 0) / rate
