"""What helps to write: whether all is well, a recipe as a cell, and what belongs into a cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from theseus.lab.actions import ActionHandler
from theseus.lab.base import Handler, RequestError, endpoint

_LONGEST = 1 << 20  # characters of a cell


class DoctorHandler(Handler):
    """Whether all is well where the server runs."""

    @endpoint
    async def get(self) -> None:
        """Answer with what `theseus doctor` says; it takes seconds."""
        self.answer(await self.service.work("doctor", _diagnosed))


class RecipeHandler(ActionHandler):
    """A saved recipe as a cell."""

    @endpoint
    async def post(self) -> None:
        """Answer with the cell that makes the recipe again."""
        path = self.inside(self.body().get("path"))
        if path.suffix not in {".yaml", ".yml"} or not path.is_file():
            raise RequestError(404, "there is no such recipe: a YAML file that `save` has written")
        self.answer({"notebook": await self.service.work("recipe", _cell, path)})


class CellHandler(Handler):
    """The base of what is asked about a `%%theseus` cell while it is written."""

    def text(self, body: dict[str, Any]) -> str:
        """Return the cell that is asked about."""
        cell = body.get("cell")
        if not isinstance(cell, str) or len(cell) > _LONGEST:
            raise RequestError(400, "cell is the text of a cell")
        return cell

    def offset(self, body: dict[str, Any]) -> int:
        """Return the place in it, in UTF-16 units."""
        offset = body.get("offset")
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise RequestError(400, "offset is a place in the cell, from 0 on")
        return offset


class CompleteHandler(CellHandler):
    """What can stand at a place."""

    @endpoint
    async def post(self) -> None:
        """Answer with what can be written there."""
        body = self.body()
        cell, offset = self.text(body), self.offset(body)
        self.answer(await self.service.work("completes", _complete, cell, offset))


class CheckHandler(CellHandler):
    """What is wrong."""

    @endpoint
    async def post(self) -> None:
        """Answer with the mistakes and how to mend them."""
        self.answer(await self.service.work("checks", _check, self.text(self.body())))


class HoverHandler(CellHandler):
    """What a key means."""

    @endpoint
    async def post(self) -> None:
        """Answer with what is known of the key at a place, or null."""
        body = self.body()
        cell, offset = self.text(body), self.offset(body)
        self.answer(await self.service.work("explains", _hover, cell, offset))


def _diagnosed() -> dict[str, Any]:
    from theseus.doctor import diagnose

    return diagnose().plain()


def _cell(path: Path) -> str:
    from theseus.lab import opening

    if path.stat().st_size > opening.LARGEST:
        raise RequestError(413, f"{path.name} is too large for a recipe")
    return opening.cell_of_file(path, path.parent)


def _complete(cell: str, offset: int) -> dict[str, Any]:
    from theseus.lab.cells import complete  # with what knows YAML and keys

    return complete(cell, offset)


def _check(cell: str) -> dict[str, Any]:
    from theseus.lab.cells import check

    return check(cell)


def _hover(cell: str, offset: int) -> dict[str, Any] | None:
    from theseus.lab.cells import hover

    return hover(cell, offset)
