"""Streams of events, as `text/event-stream`: that the registry has changed, and one run as it grows.

A browser has few connections to a server, so it is to have one of these open for what it shows, and
none for what is hidden.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError

from theseus.errors import UserError
from theseus.lab.base import Handler, RequestError, encoded, endpoint

if TYPE_CHECKING:
    from theseus.dispatch.registry import Entry
    from theseus.lab.feeding import RunFeed
    from theseus.lab.keeping import Held

HEARTBEAT = 15.0  # seconds of silence after which a comment is sent
_LOOK = 0.5  # seconds between looks at the registry
_PLACE = re.compile(r"(?:(?P<one>\d{1,18})|(?P<each>[\w@.-]+:\d{1,18}(?:,[\w@.-]+:\d{1,18})*))?")


class EventStream(Handler):
    """The base of streams: they end with their reader or with the server."""

    def initialize(self) -> None:
        """Make what wakes a stream that has nothing to say."""
        self._woken = asyncio.Event()
        self._said_at = time.monotonic()

    def on_connection_close(self) -> None:
        """End with the reader."""
        self._woken.set()

    async def begin(self) -> None:
        """Send the headers: from here on mistakes can only be events."""
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")  # or a proxy waits for more
        await self._write(b": a stream of theseus\n\n")

    async def send(self, event: str, data: Any, place: str = "") -> None:
        """Send an event; `place` is what a reader gives back who comes again."""
        at = f"id: {place}\n" if place else ""
        head = f"event: {event}\n{at}data: "
        await self._write(head.encode() + encoded(data) + b"\n\n")

    async def rest(self, seconds: float) -> bool:
        """Wait; return whether the stream goes on. One that is silent for long shows a sign."""
        if not await self.service.pause(seconds, self._woken):
            return False
        if time.monotonic() - self._said_at > HEARTBEAT:
            await self._write(b": heartbeat\n\n")
        return True

    async def _write(self, data: bytes) -> None:
        self._said_at = time.monotonic()
        self.write(data)
        await self.flush()


class EventsHandler(EventStream):
    """That something in the registry has changed."""

    @endpoint
    async def get(self) -> None:
        """Send the registry's mark now, and whenever it is another; keep runs at work up to date."""
        with suppress(StreamClosedError), self.service.keeper.wanted():
            mark = ""
            await self.begin()
            while True:
                began = time.monotonic()
                now = await self.service.read(self.service.listing.mark)
                if now != mark:
                    mark = now
                    await self.send("runs", {"mark": mark})
                # A registry of thousands is looked at less often, up to once a second.
                took = time.monotonic() - began
                if not await self.rest(min(max(_LOOK, 10 * took), 1.0)):
                    return


class StreamHandler(EventStream):
    """One run as it grows."""

    @endpoint
    async def get(self, run: str) -> None:
        """Send facts, log and metrics as they come, until the run has ended and all is sent."""
        from theseus.lab.feeding import TICK

        entry = await self.service.entry(run)
        held, feed = await self.service.read(self._open, entry)
        try:
            await self.begin()
            while True:
                began = time.monotonic()
                events = await self.service.read(feed.read)
                for number, (event, data) in enumerate(events, start=1):
                    await self.send(event, data, feed.place() if number == len(events) else "")
                if feed.ended:
                    held.over = True
                    await self.send("end", {"again": feed.again})
                    return
                if not await self.rest(max(TICK - (time.monotonic() - began), TICK / 2)):
                    return
        except StreamClosedError:
            return
        except UserError as error:
            with suppress(StreamClosedError):
                await self.send("end", {"again": False, "error": str(error)})
        finally:
            self.service.keeper.release(held)

    def _open(self, entry: Entry) -> tuple[Held, RunFeed]:
        from theseus.dispatch.log_secrets import secrets_of
        from theseus.lab.feeding import RunFeed

        hidden = secrets_of(entry)
        points = self.number("points")
        wanted = self.get_query_argument("log", "")
        if again := self.request.headers.get("Last-Event-ID"):
            wanted, _, at = again.partition(";")
            points = int(at) if at.isascii() and at.isdecimal() and len(at) < 19 else points
        offsets = _offsets(wanted)
        held = self.service.keeper.hold(entry)
        source = held.source
        try:
            lanes = source.lanes()
            rank = self.get_query_argument("rank", "0")
            if rank != "all" and rank not in lanes:
                raise RequestError(404, f"the run has no log of rank {rank[:40]!r}")
            chosen = lanes if rank == "all" else [rank]
            return held, RunFeed(
                source,
                {one: offsets.get(one, offsets.get("")) for one in chosen},
                points=points,
                curves=self.flag("curves"),
                hidden=hidden,
                attempt=lambda: source.run.entry.attempt,
            )
        except BaseException:
            self.service.keeper.release(held)
            raise


def _offsets(text: str) -> dict[str, int]:
    """Return where to begin, by rank: `123` is for any, `0:123,1:456` is for each."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise RequestError(400, "log is an offset, or RANK:OFFSET for each rank, with commas")
    if found["one"] is not None:
        return {"": int(found["one"])}
    pairs = (one.rpartition(":") for one in (found["each"] or "").split(",") if one)
    return {rank: int(offset) for rank, _, offset in pairs}
