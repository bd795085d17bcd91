"""The runs of the registry."""

from __future__ import annotations

from theseus.lab.base import Handler, endpoint


class RunsHandler(Handler):
    """All runs."""

    @endpoint
    async def get(self) -> None:
        """Answer with the runs, the newest submission first."""
        since = self.get_query_argument("since", "")
        self.answer(
            await self.service.read(
                self.service.listing.runs, since or None, everything=self.flag("all")
            )
        )


class RunHandler(Handler):
    """One run."""

    @endpoint
    async def get(self, run: str) -> None:
        """Answer with the run and the facts of its card."""
        self.answer(await self.service.read(self.service.listing.run, run))
