"""Ctrl-C, the kernel's stop button, SIGTERM and SIGUSR1: asked once, end well; twice, end now."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

REASONS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGUSR1: "the time limit is near",  # what SLURM is asked to send before it
}

# One Ctrl-C can arrive twice: from the terminal, and from a parent such as `make` or `uv run`
# that passes its own on. Nobody means two by pressing twice so fast.
_ECHO = 0.3


@contextmanager
def stop_requests(ask: Callable[[str], None]) -> Iterator[None]:
    """Call `ask(reason)` for the first signal to stop; raise KeyboardInterrupt for the second.

    Only the main thread can set signal handlers; in any other thread nothing is changed. `ask` runs
    inside the handler, between two instructions of whatever was being done: it may set an
    attribute, and must not take a lock.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = 0.0

    def handler(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        now = time.monotonic()
        if not asked:
            asked = now
            ask(REASONS[signal.Signals(number)])
        elif now - asked > _ECHO:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in REASONS}
    # None stands for a handler that was not set from Python, and could not be put back from here;
    # a signal that is ignored (`nohup`, a job in the background) stays ignored.
    ours = [number for number, now in before.items() if now not in {None, signal.SIG_IGN}]
    try:
        for number in ours:
            signal.signal(number, handler)
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
