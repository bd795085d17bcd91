"""Rows that stand alone: texts, conversations and pairs, each with what is to be learnt of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from theseus.data._backends import Ids
from theseus.data._packing import Counts, joined
from theseus.data.datasets.base import Conversation
from theseus.data.permutation import key_of, uniform
from theseus.data.token_file import SPLITS
from theseus.data.tokenizer import Tokenizer
from theseus.errors import UserError, did_you_mean

ROLES = ("system", "user", "assistant", "tool")


class Piece(NamedTuple):
    """A stretch of a row: text, or the end of a document where it is None."""

    text: str | None
    learnt: bool


class Row(NamedTuple):
    """The ids of a row, and 1 for each that is to be learnt (uint8)."""

    ids: Ids
    mask: Ids


def pieces_of_text(text: str) -> list[Piece]:
    """Return a text and its end: all of it is to be learnt."""
    return [Piece(text, True), Piece(None, True)]


def pieces_of_conversation(messages: Conversation, *, assistant_only: bool) -> list[Piece]:
    """Return a conversation as `<|role|>`, a line break and the content, turn by turn.

    What the assistant says ends with the end of a document, which is how the model learns to stop.
    With `assistant_only`, its words and that end are learnt, and nothing else: neither what is
    asked nor the names of the roles.
    """
    _check_messages(messages)
    pieces = []
    for number, message in enumerate(messages):
        says = message["role"] == "assistant"
        line_break = "" if number == 0 or messages[number - 1]["role"] == "assistant" else "\n"
        pieces.append(Piece(f"{line_break}<|{message['role']}|>\n", not assistant_only))
        pieces.append(Piece(message["content"], says or not assistant_only))
        if says:
            pieces.append(Piece(None, True))
    if messages[-1]["role"] != "assistant":
        pieces.append(Piece(None, not assistant_only))
    return pieces


@dataclass(frozen=True)
class RowsLayout:
    """Items, encoded and written row by row; a pair is two rows that stay together."""

    tokenizer: Tokenizer
    assistant_only: bool
    max_tokens: int | None
    val_pct: float
    seed: int

    def size(self, item: Any) -> int:
        """Return the number of characters."""
        if isinstance(item, str):
            return len(item)
        if isinstance(item, dict):
            return sum(self.size(side) for side in _sides(item))
        return sum(len(message["content"]) for message in item)

    def encode(self, items: list[Any]) -> list[list[Row]]:
        """Return the rows of each item."""
        rows_of_items = [[self._pieces(row) for row in _rows_of(item)] for item in items]
        texts = [
            piece.text
            for rows in rows_of_items
            for pieces in rows
            for piece in pieces
            if piece.text is not None
        ]
        # One call for all pieces, so that all cores have work.
        encoded = iter(self.tokenizer.encode_batch(texts))
        return [[self._row(pieces, encoded) for pieces in rows] for rows in rows_of_items]

    def pack(self, encoded: Sequence[Any], counts: Counts) -> tuple[dict[str, Ids], Counts]:
        """Return what to append to which file; items are whole, so `max_tokens` may be missed."""
        items, full = list(encoded), False
        if self.max_tokens is not None:
            lengths = [sum(len(row.ids) for row in rows) for rows in items]
            fitting = int(
                np.searchsorted(np.cumsum(lengths), self.max_tokens - counts.all_tokens, "right")
            )
            full, items = fitting < len(items), items[:fitting]
        index = np.arange(counts.items, counts.items + len(items))
        held_out = uniform(key_of("validation", self.seed), index) < self.val_pct
        written: dict[str, Ids] = {}
        tokens, documents, greatest = {}, {}, 0
        for split, chosen in zip(SPLITS, (~held_out, held_out), strict=True):
            rows = [row for number in np.flatnonzero(chosen) for row in items[number]]
            ids, most = joined([row.ids for row in rows], self.tokenizer.vocab_size)
            ends = counts.tokens[split] + np.cumsum([len(row.ids) for row in rows], dtype="<u8")
            masks = [row.mask for row in rows] or [np.empty(0, dtype=np.uint8)]
            written |= {
                f"{split}.bin": ids,
                f"{split}.mask.bin": np.concatenate(masks),
                f"{split}.ends.bin": ends.astype("<u8"),
            }
            tokens[split], documents[split] = len(ids), len(rows)
            greatest = max(greatest, most)
        return written, replace(counts.plus(len(items), tokens, documents, greatest), full=full)

    def _pieces(self, row: Any) -> list[Piece]:
        if isinstance(row, str):
            return pieces_of_text(row)
        return pieces_of_conversation(row, assistant_only=self.assistant_only)

    def _row(self, pieces: list[Piece], encoded: Iterator[Ids]) -> Row:
        end = np.array([self.tokenizer.eos_id], dtype=np.uint32)
        parts = [end if piece.text is None else next(encoded) for piece in pieces]
        learnt = [
            np.full(len(part), piece.learnt, dtype=np.uint8)
            for part, piece in zip(parts, pieces, strict=True)
        ]
        return Row(np.concatenate(parts), np.concatenate(learnt))


def _rows_of(item: Any) -> list[Any]:
    return _sides(item) if isinstance(item, dict) else [item]


def _sides(pair: dict[str, Any]) -> list[Any]:
    missing = [side for side in ("chosen", "rejected") if side not in pair]
    if missing:
        msg = f"a pair has 'chosen' and 'rejected'; this one has {', '.join(map(repr, pair))}"
        raise UserError(msg)
    return [pair["chosen"], pair["rejected"]]


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        msg = (
            "a conversation is a list of messages, each {'role': …, 'content': …}; "
            f"got {_shown(messages)}"
        )
        raise UserError(msg)
    for message in messages:
        fits = isinstance(message, dict) and isinstance(message.get("content"), str)
        if not fits or not isinstance(message.get("role"), str):
            msg = f"a message is {{'role': …, 'content': …}}, both text; got {_shown(message)}"
            raise UserError(msg)
        if message["role"] not in ROLES:
            hint = did_you_mean(message["role"], ROLES)
            msg = (
                f"the role of a message is one of {', '.join(ROLES)}; got {message['role']!r}{hint}"
            )
            raise UserError(msg)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
