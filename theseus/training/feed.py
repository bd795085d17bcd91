"""Batches on their way to the devices: made ahead in a thread, so that no step waits for one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from theseus.data.mixture import Batch, Mixture
from theseus.training.loss import MicroBatches
from theseus.training.plan import TrainingPlan

AHEAD = 2


def micro_batches(
    mixture: Mixture, plan: TrainingPlan, step: int, process: int = 0, processes: int = 1
) -> MicroBatches:
    """Return what one of `processes` hosts reads for a step, as host arrays (A, R / processes, T).

    The rows of all hosts together are those of the global batch, in their order, however many
    hosts and micro-batches there are.
    """
    share = plan.rows // processes
    starts = [micro * plan.rows + process * share for micro in range(plan.accumulation)]
    parts = [mixture.batch(step, slice(start, start + share)) for start in starts]
    return MicroBatches(*(_stacked(part) for part in zip(*map(in_order, parts), strict=True)))


def in_order(batch: Batch) -> tuple[Any, ...]:
    """Return the parts of a batch in the order of `MicroBatches`."""
    return (batch.tokens, batch.targets, batch.weights, batch.segments, batch.positions)


def _stacked(parts: tuple[Any, ...]) -> Any:
    return None if parts[0] is None else np.stack(parts)


def ahead(make: Callable[[int], Any], first: int, last: int) -> Iterator[Any]:
    """Yield `make(step)` for first ≤ step < last, each made while earlier ones are in use.

    An error in `make` is raised where its item would have come. Closing the iterator ends the
    thread.
    """
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=AHEAD)
    closed = threading.Event()

    def put(item: Any, error: BaseException | None = None) -> None:
        while not closed.is_set():
            try:
                ready.put((item, error), timeout=0.1)
            except queue.Full:
                continue
            return

    def produce() -> None:
        try:
            for step in range(first, last):
                if closed.is_set():
                    return
                put(make(step))
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            put(None, error)

    thread = threading.Thread(target=produce, name="batches", daemon=True)
    thread.start()
    try:
        for _ in range(first, last):
            item, error = ready.get()
            if error is not None:
                raise error
            yield item
    finally:
        closed.set()
        thread.join()
