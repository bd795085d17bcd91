"""Cells, as the browser asks about them while they are written."""

from __future__ import annotations

import asyncio
import time

from tests.lab.conftest import Ask

CELL = "%%theseus data/tokenize/text tokens\ntokenizer.backnd: bytes\n"


async def test_a_cell_is_completed_checked_and_explained(ask: Ask) -> None:
    found = await ask("cells/complete", {"cell": "%%theseus data/tok", "offset": 18})
    assert "data/tokenize/text" in [one["text"] for one in found["items"]]
    assert (found["from"], found["to"]) == (10, 18)
    end = time.monotonic() + 60
    while not (mistakes := (await ask("cells/check", {"cell": CELL}))["mistakes"]):
        assert time.monotonic() < end  # the process that knows the keys starts only now
        await asyncio.sleep(0.2)
    assert CELL[mistakes[0]["from"] : mistakes[0]["to"]] == "tokenizer.backnd"
    assert mistakes[0]["fix"]["text"] == "tokenizer.backend"
    assert await ask("cells/hover", {"cell": CELL, "offset": 0}) is None
    assert (await ask("cells/check", {"cell": "print(1)"}))["mistakes"] == []
