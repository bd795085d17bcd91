"""From encoded documents to the bytes of token files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from theseus.data._backends import Ids
from theseus.data.permutation import key_of, uniform
from theseus.data.token_file import SPLITS, dtype_for


@dataclass(frozen=True)
class Counts:
    """How far the writing is. `items` were read; `full` says that no more tokens are wanted."""

    items: int
    tokens: Mapping[str, int]
    documents: Mapping[str, int]
    max_token_id: int
    full: bool

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the counts of a record, or none at all for an empty one."""
        nothing = {"tokens": dict.fromkeys(SPLITS, 0), "documents": dict.fromkeys(SPLITS, 0)}
        return cls(**{"items": 0, **nothing, "max_token_id": 0, "full": False, **record})

    @property
    def all_tokens(self) -> int:
        """The tokens of both splits."""
        return sum(self.tokens.values())

    def plus(
        self, items: int, tokens: Mapping[str, int], documents: Mapping[str, int], greatest: int
    ) -> Counts:
        """Return the counts after these were added."""
        return replace(
            self,
            items=self.items + items,
            tokens={split: self.tokens[split] + tokens[split] for split in SPLITS},
            documents={split: self.documents[split] + documents[split] for split in SPLITS},
            max_token_id=max(self.max_token_id, greatest),
        )


@dataclass(frozen=True)
class Packer:
    """Packs documents one after the other, each with one end of document behind it."""

    vocab_size: int
    eos_id: int
    max_tokens: int | None
    val_pct: float
    seed: int

    def pack(self, encoded: Sequence[Ids], counts: Counts) -> tuple[dict[str, Ids], Counts]:
        """Return what to append to which file, and the counts afterwards.

        The last document is cut so that `max_tokens` is met exactly; it has its end all the same.
        """
        documents = list(encoded)
        lengths = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents)) + 1
        full = False
        if self.max_tokens is not None:
            room = self.max_tokens - counts.all_tokens
            last = int(np.searchsorted(np.cumsum(lengths), room))
            if last < len(documents):
                full = True
                left = room - int(lengths[:last].sum())
                documents = [*documents[:last], documents[last][: left - 1]]
                lengths = np.append(lengths[:last], left)
        held_out = self.held_out(counts.items, len(documents))
        end = np.array([self.eos_id], dtype=dtype_for(self.vocab_size))
        written: dict[str, Ids] = {}
        tokens, greatest = {}, 0
        for split, chosen in zip(SPLITS, (~held_out, held_out), strict=True):
            parts = [part for number in np.flatnonzero(chosen) for part in (documents[number], end)]
            content, most = joined(parts, self.vocab_size)
            written[f"{split}.bin"] = content
            tokens[split], greatest = len(content), max(greatest, most)
        held = int(held_out.sum())
        after = counts.plus(
            len(documents), tokens, {"train": len(documents) - held, "val": held}, greatest
        )
        return written, replace(after, full=full)

    def held_out(self, start: int, count: int) -> npt.NDArray[np.bool_]:
        """Return which documents are for validation; a document's index alone decides."""
        index = np.arange(start, start + count)
        return uniform(key_of("validation", self.seed), index) < self.val_pct


def joined(parts: Sequence[Ids], vocab_size: int) -> tuple[Ids, int]:
    """Return the ids in the type of the file, and the greatest of them.

    Raises
    ------
    OverflowError
        When an id is not of the vocabulary: it might not fit the type, and no model has it.
    """
    if not parts:
        return np.empty(0, dtype=dtype_for(vocab_size)), 0
    ids = np.concatenate(parts)
    greatest = int(ids.max())
    if greatest >= vocab_size:
        msg = f"the tokenizer gave the id {greatest}, but has a vocabulary of {vocab_size}"
        raise OverflowError(msg)
    return ids.astype(np.dtype(dtype_for(vocab_size)).newbyteorder("<"), copy=False), greatest
