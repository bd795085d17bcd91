"""Tokenize in child processes that are killed, and say when the files are complete.

`python -m tests.data.killed ROOT SEED KILLS` kills at random moments;
`python -m tests.data.killed ROOT calls` before every single call that makes something durable.
A child is forked, so that it starts at once: what takes time is the work, not the imports.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.data.helpers import run_job
from theseus.data._tokenizing import Pace
from theseus.data.datasets import StreamingPretrainingDataset
from theseus.data.tokenize import TokenizeVariableDatasetJob

DOCUMENTS = 600
VALUES = {"data.val_pct": 0.3, "data.seed": 5, "data.max_tokens": 60_000}


class Numbers(StreamingPretrainingDataset):
    """Documents of all lengths, the same every time."""

    def __iter__(self) -> Iterator[str]:
        for number in range(DOCUMENTS):
            yield f"{number} " * (number * 7919 % 97)
            if number % 10 == 0:
                time.sleep(0.001)


class TokenizeNumbers(TokenizeVariableDatasetJob):
    DATASET = Numbers
    PACE = Pace(save=0.0, report=0.0, batch_characters=1000)


class TokenizeSome(TokenizeNumbers):
    """So few batches that each call can have its turn."""

    PACE = Pace(save=0.0, report=0.0, batch_characters=4000)


def attempt(root: Path, job: type[TokenizeNumbers] = TokenizeNumbers) -> None:
    values = VALUES if job is TokenizeNumbers else VALUES | {"data.max_samples": 150}
    run_job(job, root, values)


def forked(
    root: Path, job: type[TokenizeNumbers] = TokenizeNumbers, die_at_call: int | None = None
) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        if die_at_call is not None:
            _die_before(die_at_call)
        attempt(root, job)
        status = 0
    finally:
        os._exit(status)


def _die_before(call: int) -> None:
    """Kill this process before the call with this number that reaches the disk."""
    made = 0

    def counted(real):
        def wrapper(*args, **kwargs):
            nonlocal made
            made += 1
            if made > call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return wrapper

    for name in ("fsync", "rename", "replace", "unlink", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))


def ended(child: int) -> bool:
    """Return whether the child did all the work; a child that failed by itself is an error."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    assert os.waitstatus_to_exitcode(status) == 0
    return True


def kill_at_random(root: Path, seed: int, kills: int) -> None:
    moments = random.Random(seed)
    killed = 0
    while killed < kills:
        child = forked(root)
        time.sleep(moments.uniform(0, 0.25))
        os.kill(child, signal.SIGKILL)
        if ended(child):
            break
        killed += 1
    print(f"killed {killed} times")
    assert ended(forked(root))


def kill_at_every_call(root: Path) -> None:
    call = 0
    while not ended(forked(root / str(call), TokenizeSome, die_at_call=call)):
        assert ended(forked(root / str(call), TokenizeSome))
        call += 1
    print(f"killed before each of {call} calls")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if sys.argv[2] == "calls":
        kill_at_every_call(folder)
    else:
        kill_at_random(folder, int(sys.argv[2]), int(sys.argv[3]))
