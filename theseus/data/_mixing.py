"""Which row of which dataset stands at a place of the endless sequence of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from theseus.data.permutation import Integers, key_of, permuted
from theseus.errors import UserError

_LONGEST_BLOCK = 1 << 16


@dataclass(frozen=True)
class Place:
    """Rows of one dataset: which places of the request they fill, and which rows they are."""

    source: int
    at: Integers
    rows: Integers


class Mixing:
    """The order in which the rows of several datasets are read.

    The sequence repeats a block in which each dataset has exactly its share, spread evenly. The
    n-th time that a dataset's turn comes, its n-th row is read, in an order that is another seeded
    permutation for each epoch: every row once per epoch, and any place in constant time.
    """

    def __init__(
        self, names: Sequence[str], rates: Sequence[float], rows: Sequence[int], seed: int
    ):
        self._names = tuple(names)
        self._rows = tuple(rows)
        self._seed = seed
        self.shares = shares(names, rates)
        self.block = sum(self.shares)
        # A dataset with n places in the block has them at (j + ½) / n of its length.
        moments = [(np.arange(share) + 0.5) / share for share in self.shares]
        owners = np.repeat(np.arange(len(self.shares)), self.shares)
        self._owner = owners[np.argsort(np.concatenate(moments), kind="stable")]
        self._turn = np.empty(self.block, dtype=np.int64)
        for source, share in enumerate(self.shares):
            self._turn[self._owner == source] = np.arange(share)

    def places(self, slots: Integers) -> list[Place]:
        """Return the rows that stand at these places, one `Place` per dataset that has any."""
        blocks, within = np.divmod(slots, self.block)
        owner, turn = self._owner[within], self._turn[within]
        found = []
        for source in np.unique(owner).tolist():
            (at,) = np.nonzero(owner == source)
            drawn = blocks[at] * self.shares[source] + turn[at]
            found.append(Place(source, at, self._row(source, drawn)))
        return found

    def epochs(self, slots: int) -> list[float]:
        """Return how often each dataset has been read after so many places."""
        return [
            slots * share / self.block / rows
            for share, rows in zip(self.shares, self._rows, strict=True)
        ]

    def _row(self, source: int, drawn: Integers) -> Integers:
        size = self._rows[source]
        epochs, index = np.divmod(drawn, size)
        result = np.empty_like(index)
        for epoch in np.unique(epochs).tolist():
            chosen = epochs == epoch
            key = key_of("rows", self._seed, self._names[source], epoch)
            result[chosen] = permuted(key, size, index[chosen])
        return result


def shares(names: Sequence[str], rates: Sequence[float]) -> tuple[int, ...]:
    """Return in how many rows of a block each dataset has its turn.

    The block is as short as the rates allow: rates 0.5 and 0.5 alternate. Rates that no short block
    can hold are rounded to parts of 65,536.
    """
    # The rate as it was written: 0.1 is a tenth, not the binary number next to it.
    exact = [Fraction(repr(float(rate))) for rate in rates]
    parts = [rate / sum(exact) for rate in exact]
    block = math.lcm(*(part.denominator for part in parts))
    if block <= _LONGEST_BLOCK:
        return tuple(int(part * block) for part in parts)
    wanted = [part * _LONGEST_BLOCK for part in parts]
    given = [math.floor(want) for want in wanted]
    by_remainder = sorted(range(len(given)), key=lambda i: (given[i] - wanted[i], i))
    for source in by_remainder[: _LONGEST_BLOCK - sum(given)]:
        given[source] += 1
    for name, share in zip(names, given, strict=True):
        if share == 0:
            msg = (
                f"the rate of '{name}' is less than one row in {_LONGEST_BLOCK}, so it would never "
                "be read; raise it, or leave the dataset out"
            )
            raise UserError(msg)
    return tuple(given)
