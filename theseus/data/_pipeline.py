"""Reading, encoding and writing at the same time, in the order of the documents."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_POLL = 0.2  # seconds between two looks at whether the job shall stop
_READ_AHEAD = 2  # batches
_ENCODE_AHEAD = 2
_WRITE_BEHIND = 2
_MOST_ITEMS = 50_000  # of a batch: short documents have a cost of their own
_FIRST_CHARACTERS = 1 << 16


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """Neighbouring items; `start` is the index of the first."""

    start: int
    items: list[Item]


@dataclass(frozen=True)
class _End:
    error: BaseException | None


class Reader(Generic[Item]):
    """Read items into batches, ahead of who asks, in a thread of its own.

    The thread is a daemon: a read that hangs in the network does not keep the process alive.
    """

    def __init__(
        self, items: Iterator[Item], start: int, size: Callable[[Item], int], characters: int
    ) -> None:
        self._items = items
        self._start = start
        self._size = size
        self._characters = characters
        self._queue: queue.Queue[Batch[Item] | _End] = queue.Queue(_READ_AHEAD)
        self._closed = threading.Event()
        # The dataset may read its settings while it is read.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._read,), name="theseus-read", daemon=True
        )
        self._thread.start()

    def batches(self, waiting: Callable[[], None]) -> Iterator[Batch[Item]]:
        """Yield the batches; `waiting` is called while there is none and may raise."""
        while True:
            try:
                found = self._queue.get(timeout=_POLL)
            except queue.Empty:
                waiting()
                continue
            if isinstance(found, _End):
                if found.error is not None:
                    raise found.error
                return
            yield found

    def close(self) -> None:
        """Tell the thread to end, without waiting for a read that hangs."""
        self._closed.set()
        self._thread.join(timeout=_POLL)

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            for batch in self._batches():
                if not self._put(batch):
                    return
        except BaseException as caught:  # noqa: BLE001 - raised again where the batches are read
            error = caught
        self._put(_End(error))

    def _batches(self) -> Iterator[Batch[Item]]:
        items: list[Item] = []
        # The first batches are small, so that progress and a wish to stop show soon.
        start, size, limit = self._start, 0, min(_FIRST_CHARACTERS, self._characters)
        for item in self._items:
            items.append(item)
            size += self._size(item)
            if size >= limit or len(items) >= _MOST_ITEMS:
                yield Batch(start, items)
                start += len(items)
                items, size, limit = [], 0, min(2 * limit, self._characters)
        if items:
            yield Batch(start, items)

    def _put(self, batch: Batch[Item] | _End) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(batch, timeout=_POLL)
            except queue.Full:
                continue
            return True
        return False


def encoded_ahead(
    batches: Iterator[Batch[Item]],
    encode: Callable[[list[Item]], Result],
    waiting: Callable[[], None],
) -> Generator[tuple[Batch[Item], Result]]:
    """Yield each batch with its encoding, while the next ones are being encoded.

    More than one batch is under way, so that no core waits for the last document of a batch.
    """
    under_way: deque[tuple[Batch[Item], Future[Result]]] = deque()
    with ThreadPoolExecutor(_ENCODE_AHEAD, thread_name_prefix="theseus-batch") as threads:
        try:
            for batch in batches:
                under_way.append((batch, threads.submit(encode, batch.items)))
                if len(under_way) >= _ENCODE_AHEAD:
                    yield _oldest(under_way, waiting)
            while under_way:
                yield _oldest(under_way, waiting)
        finally:
            for _, future in under_way:
                future.cancel()


def _oldest(
    under_way: deque[tuple[Batch[Item], Future[Result]]], waiting: Callable[[], None]
) -> tuple[Batch[Item], Result]:
    batch, future = under_way.popleft()
    while True:
        try:
            return batch, future.result(timeout=_POLL)
        except NotYet:
            if future.done():  # the work itself raised it
                raise
            waiting()


class Behind:
    """Do things in order in a thread of its own; after an error nothing more is done."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="theseus-write")
        self._under_way: deque[Future[None]] = deque()
        self._error: BaseException | None = None

    def do(self, what: Callable[..., None], *args: Any) -> None:
        """Do it soon; wait while much is left to do, and raise the error of what was done."""
        while len(self._under_way) >= _WRITE_BEHIND:
            self._under_way.popleft().result()
        self._under_way.append(self._thread.submit(self._do, what, *args))

    def finish(self) -> None:
        """Return when everything is done, or raise the first error."""
        self._thread.shutdown(wait=True)
        if self._error is not None:
            raise self._error

    def _do(self, what: Callable[..., None], *args: Any) -> None:
        if self._error is not None:
            return
        try:
            what(*args)
        except BaseException as error:
            self._error = error
            raise
