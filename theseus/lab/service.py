"""What one server keeps for all its handlers; closing it leaves no thread, task or connection."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from theseus.lab.listing import Listing

_T = TypeVar("_T")
_READERS = 4  # threads that read the registry's files


class Service:
    """The state of the extension in one server: caches of the registry, threads, open streams."""

    def __init__(self) -> None:
        self.listing = Listing()
        self._readers: ThreadPoolExecutor | None = None

    async def read(self, call: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
        """Do something short with files on a thread, so that the server answers others meanwhile."""
        if self._readers is None:
            self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="theseus lab")
        run = contextvars.copy_context().run
        work = partial(run, call, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def close(self) -> None:
        """End all of it."""
        if self._readers is not None:
            self._readers.shutdown(wait=False, cancel_futures=True)
            self._readers = None
