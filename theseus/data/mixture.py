"""Token files → batches that depend on the seed and the step alone.

Axis letters: B rows of a batch, T targets of a row (the block size).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from theseus.data._mixing import Mixing
from theseus.data._sources import Rows, Source, check_tokenizer
from theseus.data.datasets.sampling import Sampling
from theseus.data.tokenizer import Tokenizer
from theseus.errors import UserError


class Batch(NamedTuple):
    """Rows for a model, as host arrays.

    `weights` is 1 for a target that counts and 0 for padding and what is not to be learnt. Where
    documents are kept apart, `segments` numbers the documents of a row from 1 (0 is padding) and
    `positions` counts from 0 in each of them.
    """

    tokens: npt.NDArray[np.int32]  # (B, T)
    targets: npt.NDArray[np.int32]  # (B, T)
    weights: npt.NDArray[np.float32]  # (B, T)
    segments: npt.NDArray[np.int32] | None  # (B, T)
    positions: npt.NDArray[np.int32] | None  # (B, T)


class Mixture:
    """Batches from the token files of one or more datasets.

    Parameters
    ----------
    samplings
        The datasets with their rates and styles.
    root
        The folder under which the token files lie.
    block_size, batch_size
        Targets of a row; rows of the global batch, over all hosts.
    seed
        Decides the order of the rows.
    separate_documents
        Number the documents of a row, restart their positions, and do not ask for the first token
        of a document after the end of another.
    suffix
        The `data.suffix` that the tokens were made with.
    tokenizer
        The tokenizer of the model, or its identity; tokens of another one are refused.

    Raises
    ------
    UserError
        When tokens are missing (the message has the call that makes them), were made from other
        text or by another tokenizer, or are fewer than a row.
    """

    def __init__(
        self,
        samplings: Sequence[Sampling],
        *,
        root: Path | str,
        block_size: int,
        batch_size: int,
        seed: int,
        separate_documents: bool = False,
        suffix: str = "",
        tokenizer: Tokenizer | Mapping[str, Any] | None = None,
    ) -> None:
        if not samplings:
            msg = "there is nothing to train on: DATASET is empty; for example DATASET = [StdLib]"
            raise UserError(msg)
        _check_sizes(block_size, batch_size)
        if tokenizer is not None and not isinstance(tokenizer, Mapping):
            tokenizer = tokenizer.identity()
        self.block_size = block_size
        self.batch_size = batch_size
        self.separate_documents = separate_documents
        self.sources = tuple(
            Source(sampling, Path(root), block_size, suffix, tokenizer) for sampling in samplings
        )
        for source in self.sources[1:]:
            check_tokenizer(source.name, source.sidecar.tokenizer, self.tokenizer)
        self._rows_per_draw = _rows_per_draw(samplings, batch_size)
        self._mixing = Mixing(
            [source.name for source in self.sources],
            [source.sampling.rate for source in self.sources],
            [source.train.count // self._rows_per_draw for source in self.sources],
            seed,
        )

    @property
    def tokenizer(self) -> Mapping[str, Any]:
        """The identity of the tokenizer that made all these tokens."""
        return self.sources[0].sidecar.tokenizer

    @property
    def tokens(self) -> int:
        """The tokens for training, over all datasets."""
        return sum(source.sidecar.tokens["train"] for source in self.sources)

    @property
    def rows_per_epoch(self) -> int:
        """The rows for training, over all datasets."""
        return sum(source.train.count for source in self.sources)

    @property
    def max_token_id(self) -> int:
        """The greatest id that occurs in any of the files."""
        return max(source.sidecar.max_token_id for source in self.sources)

    @property
    def has_validation(self) -> bool:
        """Whether any tokens are held out."""
        return self.validation_rows > 0

    @property
    def validation_rows(self) -> int:
        """The rows held out, over all datasets."""
        return sum(source.val.count for source in self.sources)

    def notes(self) -> list[str]:
        """Return what a trainer should say about the rows before it starts, a line each.

        Looks at every row of the datasets that keep rows apart: rows that the block cuts, and rows
        that have nothing to learn in them, which is what a cut may leave of a conversation.
        """
        return [
            f"{source.name}: {note}" for source in self.sources for note in source.train.notes()
        ]

    def epochs(self, steps: int) -> float:
        """Return how often the dataset that is read most will have been read after these steps."""
        return max(self.epochs_by_dataset(steps).values())

    def epochs_by_dataset(self, steps: int) -> dict[str, float]:
        """Return how often each dataset will have been read after these steps."""
        draws = steps * self.batch_size // self._rows_per_draw
        names = [source.name for source in self.sources]
        return dict(zip(names, self._mixing.epochs(draws), strict=True))

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return the batch of a step, or some rows of it.

        Parameters
        ----------
        step
            Counted from 0. Any step takes the same time.
        rows
            Which rows of the global batch, for the part of one host or micro-batch; all by default.
        """
        chosen = np.arange(self.batch_size)[rows if rows is not None else slice(None)]
        slots, side = np.divmod(step * self.batch_size + chosen, self._rows_per_draw)
        wanted: list[tuple[Rows, int] | None] = [None] * len(chosen)
        for place in self._mixing.places(slots):
            train = self.sources[place.source].train
            numbers = place.rows * self._rows_per_draw + side[place.at]
            for at, number in zip(place.at.tolist(), numbers.tolist(), strict=True):
                wanted[at] = (train, number)
        return self._read(wanted)

    def validation(
        self, rows_per_batch: int, *, limit: int | None = None, rows: slice | None = None
    ) -> Iterator[Batch]:
        """Yield the held-out rows of all datasets once, in a fixed order.

        Parameters
        ----------
        rows_per_batch
            Rows of each batch; the last is filled up with rows of weight 0.
        limit
            At most so many rows, spread evenly over all; the same ones every time.
        rows
            Which rows of each batch, for the part of one host; every host gets as many batches.
        """
        unit = self._rows_per_draw
        if rows_per_batch % unit:
            msg = f"validation of pairs needs an even number of rows, not {rows_per_batch}"
            raise UserError(msg)
        total = self.validation_rows // unit
        count = total if limit is None else min(total, limit // unit)
        draws = np.arange(count) * total // max(count, 1)
        numbers = (draws[:, None] * unit + np.arange(unit)).ravel()
        starts = np.cumsum([0, *(source.val.count for source in self.sources)])
        for begin in range(0, len(numbers), rows_per_batch):
            wanted: list[tuple[Rows, int] | None] = [None] * rows_per_batch
            for at, number in enumerate(numbers[begin : begin + rows_per_batch].tolist()):
                source = int(np.searchsorted(starts, number, side="right")) - 1
                wanted[at] = (self.sources[source].val, number - int(starts[source]))
            yield self._read(wanted[rows] if rows is not None else wanted)

    def _read(self, wanted: Sequence[tuple[Rows, int] | None]) -> Batch:
        shape = (len(wanted), self.block_size)
        # One array for inputs and targets, which overlap; ids are cast once, while they are copied.
        tokens = np.zeros((shape[0], shape[1] + 1), dtype=np.int32)
        weights = np.zeros(shape, dtype=np.float32)
        lengths = np.zeros((shape[0], 1), dtype=np.int64)
        packed = np.zeros((shape[0], 1), dtype=bool)
        for at, found in enumerate(wanted):
            if found is not None:
                rows, number = found
                lengths[at] = rows.fill(number, tokens[at], weights[at])
                packed[at] = rows.packed
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        if not self.separate_documents:
            return Batch(inputs, targets, weights, None, None)
        segments, positions = _apart(inputs, lengths, packed, self.tokenizer["eos"])
        # The target of an end of document is the first token of another one.
        weights[packed & (inputs == self.tokenizer["eos"])] = 0
        return Batch(inputs, targets, weights, segments, positions)


def _apart(
    tokens: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int64],
    packed: npt.NDArray[np.bool_],
    eos: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the segments and positions of rows whose first `lengths` tokens are real."""
    index = np.arange(tokens.shape[1])
    begins = np.zeros(tokens.shape, dtype=bool)
    begins[:, 1:] = packed & (tokens[:, :-1] == eos)
    segments = 1 + np.cumsum(begins, axis=1)
    positions = index - np.maximum.accumulate(np.where(begins, index, 0), axis=1)
    real = index < lengths
    return (
        np.where(real, segments, 0).astype(np.int32),
        np.where(real, positions, 0).astype(np.int32),
    )


def _check_sizes(block_size: int, batch_size: int) -> None:
    for key, value in (
        ("architecture.block_size", block_size),
        ("training.batch_size", batch_size),
    ):
        if value < 1:
            msg = f"{key} is {value}; it is at least 1"
            raise UserError(msg)


def _rows_per_draw(samplings: Sequence[Sampling], batch_size: int) -> int:
    """Return 2 when pairs are drawn, which stand in neighbouring rows, else 1."""
    pairs = [sampling.style == "contrastive" for sampling in samplings]
    if not any(pairs):
        return 1
    if not all(pairs):
        msg = (
            "a mixture is either all 'contrastive' or not at all: a loss over pairs and one over "
            "single rows cannot be summed"
        )
        raise UserError(msg)
    if batch_size % 2:
        msg = (
            f"training.batch_size is {batch_size}, but the style 'contrastive' needs an even one: "
            f"a pair is two rows; {batch_size - 1 or 2} or {batch_size + 1} would work"
        )
        raise UserError(msg)
    return 2
