"""How a contender of `benchmarks.train` is told to run: one line in, one line out.

The parent writes a line for each stretch of steps; the contender answers with JSON. It begins with
an answer of its own, once its first stretch is done and everything is compiled. Standard library
only: contenders run in environments of their own.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Stretch:
    """The time since it was made: of the clock, and of all processors together.

    The second counts where others compute on the same machine.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def facts(self) -> dict[str, float]:
        """Return `seconds` and `cpu`."""
        seconds, cpu = self._began
        return {"seconds": time.perf_counter() - seconds, "cpu": time.process_time() - cpu}


class Channel:
    """The parent's end; whatever else is printed goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def answer(self, **facts: Any) -> None:
        """Tell the parent `facts`, and the memory that is and was in use."""
        print(json.dumps({**facts, **memory()}), file=self._out, flush=True)

    def wait(self) -> None:
        """Return when the next stretch is to run; end the process when there is none."""
        if not sys.stdin.readline():
            os._exit(0)


def serve(steps: int, run: Callable[[int], None]) -> None:
    """Answer with the seconds that `run(steps)` takes, whenever the parent asks; never return."""
    channel = Channel()
    while True:
        stretch = Stretch()
        run(steps)
        channel.answer(**stretch.facts(), steps=steps)
        channel.wait()


def memory() -> dict[str, int]:
    """Return the resident bytes of this process, now and at most."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells begins with the memory of the parent
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        now, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return {"rss": now, "peak": peak}
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"rss": peak, "peak": peak}
