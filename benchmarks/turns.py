"""Contenders that take turns: processes that stay alive, and ratios formed within a turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass
class Contender:
    """A process that runs stretches of steps."""

    name: str
    command: list[str]
    environment: dict[str, str]
    answers: list[dict[str, float]] = field(default_factory=list)

    def start(self) -> None:
        """Begin; `ready` waits until it has run its first stretch."""
        self.began = time.perf_counter()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self.process = subprocess.Popen(
            self.command,
            cwd=REPOSITORY,
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def ready(self) -> float:
        """Return the seconds from the start of the process to the end of its first stretch."""
        self._read()
        return time.perf_counter() - self.began

    def ask(self, line: str = "") -> dict[str, float]:
        """Let it run, and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.answers.append(self._read())
        return self.answers[-1]

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()
        self.log.close()

    def _read(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            told = self.log.read().decode(errors="replace")[-3000:]
            msg = f"{self.name} ended with {self.process.returncode}:\n{told}"
            raise SystemExit(msg)
        found: dict[str, float] = json.loads(line)
        return found


@contextmanager
def running(contenders: Sequence[Contender]) -> Iterator[None]:
    """Hold the contenders alive and ready: compiled, and their first stretch done."""
    with ExitStack() as stack:
        for contender in contenders:
            contender.start()
            stack.callback(contender.close)
        for contender in contenders:
            contender.ready()
        yield


def take_turns(contenders: Sequence[Contender], turns: int) -> None:
    """Let each run once per turn, forwards and backwards in alternation."""
    for turn in range(turns):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            contender.ask()


def per_step(contender: Contender, clock: str = "seconds") -> list[float]:
    """Return the seconds per step of each turn, by the clock or of all processors (`cpu`)."""
    return [answer[clock] / answer["steps"] for answer in contender.answers]


def compared(first: Contender, second: Contender) -> dict[str, dict[str, float]]:
    """Return how often the first is as fast as the second, by both clocks."""
    return {
        clock: ratios(per_step(first, clock), per_step(second, clock))
        for clock in ("seconds", "cpu")
    }


def ratios(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """Return the median and the quartiles of second / first, turn by turn."""
    found = [b / a for a, b in zip(first, second, strict=True)]
    low, median, high = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
    return {"median": median, "low": low, "high": high, "turns": len(found)}


def shown(ratio: dict[str, float]) -> str:
    """Return median [quartiles]."""
    return f"{ratio['median']:.3f} [{ratio['low']:.3f}–{ratio['high']:.3f}]"


def both(ratio: dict[str, dict[str, float]]) -> str:
    """Return the ratio by both clocks."""
    return f"{shown(ratio['seconds'])}, by processor time {shown(ratio['cpu'])}"
