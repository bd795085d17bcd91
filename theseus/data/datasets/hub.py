"""Any text dataset of the hub, by name, or local files in its formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from theseus.config import configure, field
from theseus.data.datasets._remote import Remote
from theseus.data.datasets.base import StreamingPretrainingDataset
from theseus.errors import UserError


@dataclass
class HubConfig:
    """Which dataset, and which of its columns is the text."""

    path: str = field(
        "data/hub/path",
        default="",
        help="name of the hub dataset (owner/name), or a folder of .parquet or .jsonl files",
    )
    name: str | None = field(
        "data/hub/name", default=None, help="the dataset's configuration, where it has several"
    )
    split: str = field("data/hub/split", default="train", help="the split to read")
    column: str = field("data/hub/column", default="text", help="the column that holds the text")
    revision: str | None = field(
        "data/hub/revision",
        default=None,
        help="a commit or tag of the dataset, so that it stays the same; none: the newest",
    )


class Hub(StreamingPretrainingDataset):
    """One column of a hub dataset, in the hub's order."""

    CONFIG = HubConfig

    def __init__(self) -> None:
        self.check()
        args = configure(self.CONFIG)
        self._remote = Remote(
            "data.hub.path", args.path, args.name, args.split, args.column, args.revision
        )

    @classmethod
    def check(cls) -> None:
        """Refuse a missing path."""
        if not configure(cls.CONFIG).path:
            msg = (
                "data.hub.path names no dataset; for example "
                "`q.config.data.hub.path = 'roneneldan/TinyStories'`"
            )
            raise UserError(msg)

    def source(self) -> Mapping[str, Any]:
        """Return which dataset, part, split, column and revision this is."""
        remote = self._remote
        return {
            "path": remote.path,
            "name": remote.name,
            "split": remote.split,
            "column": remote.column,
            "revision": remote.revision,
        }

    def __iter__(self) -> Iterator[str]:
        return self.starting_at(0)

    def starting_at(self, index: int) -> Iterator[str]:
        """Iterate from this text on; network blips are waited out."""
        return self._remote.starting_at(index)
