"""Which address is answered by whom, below `<base_url>theseus/api/`."""

from __future__ import annotations

from theseus.lab.base import Handler
from theseus.lab.runs import RunHandler, RunsHandler

ID = r"([^/]+)"

ROUTES: list[tuple[str, type[Handler]]] = [
    ("runs", RunsHandler),
    (f"runs/{ID}", RunHandler),
]
