"""FineWeb: cleaned web pages, streamed from the hub or read from a local copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from theseus.config import configure, field
from theseus.data.datasets._remote import Remote
from theseus.data.datasets.base import StreamingPretrainingDataset


@dataclass
class FineWebConfig:
    """Which part of FineWeb, and where it is."""

    snapshot: str = field(
        "data/fineweb/snapshot",
        default="CC-MAIN-2022-21",
        help="the crawl, or a sample such as sample-10BT",
    )
    path: str = field(
        "data/fineweb/path",
        default="HuggingFaceFW/fineweb",
        help="the hub dataset, or a folder of .parquet or .jsonl files",
    )


class FineWeb(StreamingPretrainingDataset):
    """The pages of one crawl, in the hub's order."""

    CONFIG = FineWebConfig
    WHERE = frozenset({"path"})

    def __init__(self) -> None:
        args = configure(self.CONFIG)
        self._remote = Remote("data.fineweb.path", args.path, args.snapshot, "train", "text")

    def source(self) -> Mapping[str, Any]:
        """Return which dataset and part this is."""
        return {"path": self._remote.path, "name": self._remote.name}

    def __iter__(self) -> Iterator[str]:
        return self.starting_at(0)

    def starting_at(self, index: int) -> Iterator[str]:
        """Iterate from this page on; network blips are waited out."""
        return self._remote.starting_at(index)
