"""What one server keeps for all its handlers; closing it leaves no thread, task or connection."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from theseus.errors import UserError
from theseus.lab.threads import NAME, start

if TYPE_CHECKING:
    from theseus.dispatch.registry import Entry
    from theseus.lab.keeping import Keeper
    from theseus.lab.listing import Listing
    from theseus.lab.tasks import Tasks

_T = TypeVar("_T")
_READERS = 4  # threads that read the registry's files
_FRESH = 2.0  # seconds for which the files of a run are new enough
_PATIENCE = 3.0  # seconds for which a request waits for a host, or for threads to end


class Service:
    """The state of the extension in one server: caches of the registry, threads, open streams.

    Its parts are made, and what they need is loaded, with the first request: Jupyter's start must
    not wait for what nobody may ask for.
    """

    def __init__(self) -> None:
        self.closing = threading.Event()
        self._readers: ThreadPoolExecutor | None = None
        self._waiting: set[asyncio.Event] = set()
        self._brought: dict[str, float] = {}

    @cached_property
    def listing(self) -> Listing:
        """The runs of the registry."""
        from theseus.lab.listing import Listing

        return Listing()

    @cached_property
    def keeper(self) -> Keeper:
        """The threads that keep runs up to date."""
        from theseus.lab.keeping import Keeper

        return Keeper(self.listing.active, self.listing.heard)

    @cached_property
    def tasks(self) -> Tasks:
        """What takes longer than a request."""
        from theseus.lab.tasks import Tasks

        return Tasks()

    async def entry(self, run: str) -> Entry:
        """Return the entry of the run with this very id; see `listing.entry_of`."""
        from theseus.lab.listing import entry_of

        return await self.read(entry_of, run)

    async def read(self, call: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
        """Do something short with files on a thread, so that the server answers others meanwhile."""
        if self.closing.is_set():
            return call(*arguments, **options)  # the last words of what ends; no thread comes back
        if self._readers is None:
            self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix=f"{NAME} reader")
        work = partial(contextvars.copy_context().run, call, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def work(self, name: str, call: Callable[..., _T], *arguments: Any) -> _T:
        """Do something that may take long on a thread of its own, which nobody waits for at the end."""
        return await self._begun(name, call, *arguments)

    def _begun(self, name: str, call: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def settle(set_: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                set_(value)

        def do() -> None:
            try:
                done: tuple[Callable[[Any], None], Any] = (future.set_result, call(*arguments))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                done = (future.set_exception, error)
            with suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(settle, *done)

        start(do, name=name)
        return future

    async def bring(self, entry: Entry) -> None:
        """Bring what is new of a run's files here, unless it was just now; wait for that a while."""
        now = time.monotonic()
        if self.keeper.holds(entry.id) or now - self._brought.get(entry.id, -_FRESH) < _FRESH:
            return
        self._brought[entry.id] = now
        bringing = self._begun(f"brings {entry.id}", _bring, entry, self.closing)
        await asyncio.wait([bringing], timeout=_PATIENCE)

    async def pause(self, seconds: float, woken: asyncio.Event) -> bool:
        """Wait so long; return False at once when `woken` is set or the server stops."""
        if self.closing.is_set():
            return False
        self._waiting.add(woken)
        try:
            await asyncio.wait_for(woken.wait(), seconds)
        except TimeoutError:
            return not self.closing.is_set()
        finally:
            self._waiting.discard(woken)
        return False

    async def close(self) -> None:
        """End all of it; what waits for a host is not waited for."""
        self.closing.set()
        if "keeper" in self.__dict__:
            self.keeper.close()
        for woken in self._waiting:
            woken.set()
        if (cells := sys.modules.get("theseus.lab.cells")) is not None:
            cells.close()  # the process that checks them
        if self._readers is not None:
            self._readers.shutdown(wait=False, cancel_futures=True)
            self._readers = None
        until = time.monotonic() + _PATIENCE
        # A thread that ends sets no event of a loop.
        while time.monotonic() < until and any(map(_is_ours, threading.enumerate())):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _bring(entry: Entry, stop: threading.Event) -> None:
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.showing import SentRun
    from theseus.lab.keeping import Limited

    # Where it fails, what was brought before is given; the run's card says why.
    with suppress(UserError):
        SentRun(DispatchedRun(entry)).once(Limited(stop, _PATIENCE))


def _is_ours(thread: threading.Thread) -> bool:
    return thread.name.startswith((NAME, "theseus watch "))
