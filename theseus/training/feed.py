"""Batches on their way to the devices: made ahead in a thread, so that no step waits for one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from theseus.data.mixture import Batch, Mixture
from theseus.training.loss import MicroBatches
from theseus.training.plan import TrainingPlan

AHEAD = 2


def micro_batches(
    mixture: Mixture, plan: TrainingPlan, step: int, rows: slice | None = None
) -> MicroBatches:
    """Return what one host reads for a step, as host arrays (A, R', T): its rows of each of A.

    The rows of all hosts together are those of the global batch, in their order, however many
    hosts and micro-batches there are.

    Parameters
    ----------
    rows
        Which of the R rows of a micro-batch; all by default.
    """
    first, last, _ = (rows or slice(None)).indices(plan.rows)
    starts = [micro * plan.rows for micro in range(plan.accumulation)]
    parts = [mixture.batch(step, slice(start + first, start + last)) for start in starts]
    return MicroBatches(*(_stacked(part) for part in zip(*map(in_order, parts), strict=True)))


def local_rows(sharding: NamedSharding, rows: int, axis: int) -> slice:
    """Return which of `rows` along an axis the devices of this host hold, all of them together."""
    shape = [1] * len(sharding.spec)
    shape[axis] = rows
    held = sharding.addressable_devices_indices_map(tuple(shape)).values()
    bounds = [index[axis].indices(rows) for index in held if index is not None]
    return slice(min(first for first, _, _ in bounds), max(last for _, last, _ in bounds))


def on_devices(host: MicroBatches, sharding: NamedSharding, rows: int, axis: int) -> MicroBatches:
    """Return global arrays made of each host's rows along an axis (`local_rows`)."""

    def placed(part: Any) -> jax.Array:
        shape = [*part.shape]
        shape[axis] = rows
        return jax.make_array_from_process_local_data(sharding, part, tuple(shape))

    found: MicroBatches = jax.tree.map(placed, host)
    return found


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
