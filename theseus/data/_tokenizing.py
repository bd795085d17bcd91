"""One attempt to write the token files of a dataset, from where the last one got to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from theseus.data._backends import Ids
from theseus.data._packing import Counts
from theseus.data._pipeline import Behind, Reader, encoded_ahead
from theseus.data.datasets.base import Dataset, MapDataset
from theseus.data.token_writer import TokenWriter
from theseus.job import Recorder, StopRequested


class Layout(Protocol):
    """How items become the content of files."""

    def size(self, item: Any) -> int:
        """Return how many characters the item has, about."""

    def encode(self, items: list[Any]) -> Sequence[Any]:
        """Encode items, on all cores; called from several threads."""

    def pack(self, encoded: Sequence[Any], counts: Counts) -> tuple[dict[str, Ids], Counts]:
        """Return what to append to which file, and the counts afterwards."""


@dataclass(frozen=True)
class Pace:
    """How often things are done: seconds, and characters of a batch."""

    save: float = 5.0
    report: float = 5.0
    batch_characters: int = 4 << 20


class Attempt:
    """Reads, encodes and writes at the same time; stops at a batch when asked to."""

    def __init__(
        self,
        recorder: Recorder,
        dataset: Dataset[Any],
        layout: Layout,
        *,
        what: str,
        max_tokens: int | None,
        max_samples: int | None,
        pace: Pace,
    ) -> None:
        self._recorder = recorder
        self._dataset = dataset
        self._layout = layout
        self._what = what
        self._max_tokens = max_tokens
        self._max_samples = max_samples
        self._pace = pace
        self._began = self._saved = self._reported = time.monotonic()

    def run(self, writer: TokenWriter) -> Counts:
        """Return the counts when everything is written and durable.

        Raises
        ------
        StopRequested
            When the recorder said so; what was written until then is durable.
        """
        counts = Counts.of(writer.progress)
        self._at_start = counts
        if counts.items:
            self._recorder.event(
                "resumed",
                message=f"{self._what}: going on after document {counts.items}",
                documents=counts.items,
                tokens=counts.all_tokens,
            )
        self._appended = counts
        if not counts.full:
            self._write(writer)
        writer.save(asdict(self._appended))
        self._tell(self._appended, final=True)
        return self._appended

    def _write(self, writer: TokenWriter) -> None:
        counts, behind = self._appended, Behind()
        with ExitStack() as stack:
            reader = Reader(
                self._items(counts.items),
                counts.items,
                self._layout.size,
                self._pace.batch_characters,
            )
            stack.callback(reader.close)
            batches = reader.batches(self._stop_if_asked)
            encoded = encoded_ahead(batches, self._layout.encode, self._stop_if_asked)
            stack.enter_context(closing(encoded))
            try:
                for _, batch in encoded:
                    content, counts = self._layout.pack(batch, counts)
                    behind.do(self._append, writer, content, counts)
                    self._tell(counts)
                    if counts.full:
                        break
                    self._stop_if_asked()
            except BaseException:
                # Whatever ended the attempt: keep what was encoded, then let it out. An error of
                # the writing itself comes out here, and the record of before stays as it is.
                behind.finish()
                writer.save(asdict(self._appended))
                raise
            behind.finish()

    def _items(self, start: int) -> Iterator[Any]:
        items = self._dataset.starting_at(start)
        if self._max_samples is None:
            yield from items
        else:
            for _ in range(start, self._max_samples):
                try:
                    yield next(items)
                except StopIteration:
                    return

    def _append(self, writer: TokenWriter, content: dict[str, Ids], counts: Counts) -> None:
        for name, ids in content.items():
            writer.append(name, ids.data)
        self._appended = counts
        if time.monotonic() - self._saved >= self._pace.save:
            writer.save(asdict(counts))
            self._saved = time.monotonic()

    def _stop_if_asked(self) -> None:
        reason = self._recorder.stopping
        if reason:
            msg = (
                f"{self._what} was stopped ({reason}); what is written is kept: run the same job "
                "again and it goes on there"
            )
            raise StopRequested(msg)

    def _tell(self, counts: Counts, *, final: bool = False) -> None:
        done, now = counts.all_tokens, time.monotonic()
        seconds = max(now - self._began, 1e-9)
        rate = (done - self._at_start.all_tokens) / seconds
        total, exact = (done, True) if final else self._total(counts)
        facts: dict[str, Any] = {"rate": rate, "documents": counts.items}
        if total is not None and rate > 0:
            facts["remaining"] = (total - done) / rate
        if not exact:
            facts["estimated"] = True
        self._recorder.progress(done, total, unit="tokens", **facts)
        if final or now - self._reported >= self._pace.report:
            self._reported = now
            values = {
                "data/tokens": done,
                "data/documents": counts.items,
                "data/tokens_per_second": rate,
            }
            self._recorder.report(counts.items, values, tokens=done)

    def _total(self, counts: Counts) -> tuple[int | None, bool]:
        """Return how many tokens it will be, and whether that is known or only estimated."""
        items = len(self._dataset) if isinstance(self._dataset, MapDataset) else None
        if self._max_samples is not None:
            items = min(self._max_samples, items) if items is not None else self._max_samples
        estimate = (
            None
            if items is None or not counts.items
            else round(counts.all_tokens * max(items, counts.items) / counts.items)
        )
        if self._max_tokens is None:
            return estimate, estimate is None
        if estimate is not None and estimate < self._max_tokens:
            return estimate, False
        return self._max_tokens, True
