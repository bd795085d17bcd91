"""A run's log and metrics as they are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError

from theseus.lab.base import Handler, RequestError, endpoint

if TYPE_CHECKING:
    from theseus.dispatch.registry import Entry

_ROWS = 10_000  # lines of metrics in one answer


class LogHandler(Handler):
    """The bytes of a log."""

    @endpoint
    async def get(self, run: str) -> None:
        """Answer with a part of the log as plain text, its secrets covered."""
        from theseus.dispatch.log_secrets import secrets_of
        from theseus.lab import covering

        rank = self.get_query_argument("rank", "0")
        start, end = self.number("from", 0), self.number("to")
        entry = await self.service.entry(run)
        path = await self.service.read(_log_of, entry, rank)
        hidden = await self.service.read(secrets_of, entry)
        await self.service.bring(entry)
        size = await self.service.read(covering.size_of, path.parent, rank)
        start, end = min(start or 0, size), size if end is None else min(end, size)
        # Text, whatever is in it: a browser must neither guess a type nor show it as a page.
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Theseus-Size", str(size))
        self.set_attachment_header(f"{run}-{rank}.log")
        parts = covering.parts(path.parent, rank, start, end, hidden)
        try:
            while (part := await self.service.read(next, parts, None)) is not None:
                self.write(part.data)
                await self.flush()
        except StreamClosedError:
            return
        self.finish(set_content_type="text/plain; charset=utf-8")


class MetricsHandler(Handler):
    """The records of a run's metrics."""

    @endpoint
    async def get(self, run: str) -> None:
        """Answer with the lines from one on, as they were written."""
        start = self.number("from", 0) or 0
        entry = await self.service.entry(run)
        await self.service.bring(entry)
        self.answer(await self.service.read(_metrics_of, entry, start))


def _log_of(entry: Entry, rank: str) -> Any:
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.showing import SentRun

    path = SentRun(DispatchedRun(entry)).lanes().get(rank)
    if path is None:
        raise RequestError(404, f"the run has no log of rank {rank[:40]!r}")
    return path


def _metrics_of(entry: Entry, start: int) -> dict[str, Any]:
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.log_secrets import secrets_of
    from theseus.dispatch.showing import SentRun
    from theseus.lab.feeding import Rows

    rows = Rows(SentRun(DispatchedRun(entry)).metrics_file(), start, secrets_of(entry))
    found = rows.read(_ROWS) or {"from": start, "to": start, "rows": []}
    return {**found, "more": rows.more}
