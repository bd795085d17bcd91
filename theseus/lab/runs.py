"""The runs of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from theseus.lab.base import Handler, endpoint


class RunsHandler(Handler):
    """All runs."""

    @endpoint
    async def get(self) -> None:
        """Answer with the runs, the newest submission first."""
        since, everything = self.get_query_argument("since", ""), self.flag("all")
        listing = self.service.listing
        found = await self.service.read(listing.runs, since or None, everything=everything)
        root = self.root()
        found["runs"] = [{**run, "path": path_of(run, root)} for run in found["runs"]]
        self.answer(found)


class RunHandler(Handler):
    """One run."""

    @endpoint
    async def get(self, run: str) -> None:
        """Answer with the run and the facts of its card."""
        found = await self.service.read(self.service.listing.run, run)
        self.answer({**found, "path": path_of(found, self.root())})


def path_of(run: Mapping[str, Any], root: Path) -> str | None:
    """Return a run's folder as the server's file browser names it; None where it shows it not."""
    folder = Path(run["folder"])
    if run["provider"] != "local" or not folder.is_relative_to(root):
        return None
    parts = folder.relative_to(root).parts
    return None if any(part.startswith(".") for part in parts) else "/".join(parts)
