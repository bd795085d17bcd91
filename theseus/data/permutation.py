"""Seeded orders that are computed, not stored: any place of any epoch in constant time."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

_ROUNDS = 6


def mix(words: Words) -> Words:
    """Scramble 64-bit words one to one: the finalizer of SplitMix64.

    See Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@functools.lru_cache(maxsize=1024)
def key_of(*parts: int | str) -> int:
    """Return one 64-bit key for these parts, in this order; the same on every machine."""
    key = np.zeros(1, dtype=np.uint64)
    for part in parts:
        data = str(part).encode()
        for start in range(0, len(data), 8):
            word = int.from_bytes(data[start : start + 8], "little")
            key = mix(key ^ np.uint64(word))
        key = mix(key ^ np.uint64(len(data)))
    return int(key[0])


def uniform(key: int, index: Integers) -> npt.NDArray[np.float64]:
    """Return a number of [0, 1) for each index, as good as random and always the same."""
    words = mix(mix(index.astype(np.uint64)) ^ np.uint64(key))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permuted(key: int, size: int, index: Integers) -> Integers:
    """Return where a seeded permutation of `range(size)` sends each index.

    Numbers below `size` are written as (left, right) in a grid that is hardly larger; rounds that
    add a hash of one half to the other are one to one on the grid (a Feistel network), and what
    falls outside `size` goes round again until it is inside, which keeps it one to one.
    """
    columns = math.isqrt(max(size - 1, 0)) + 1
    rows = -(-size // columns)
    result = index.astype(np.int64)
    outside = np.ones(result.shape, dtype=bool)
    while outside.any():
        left, right = np.divmod(result[outside], columns)
        for number, round_key in enumerate(_round_keys(key)):
            if number % 2 == 0:
                left = (left + _hash(right, round_key, rows)) % rows
            else:
                right = (right + _hash(left, round_key, columns)) % columns
        result[outside] = left * columns + right
        outside = result >= size
    return result


@functools.lru_cache(maxsize=256)
def _round_keys(key: int) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(key_of(key, number)) for number in range(_ROUNDS))


def _hash(half: Integers, key: np.uint64, modulus: int) -> Integers:
    return (mix(half.astype(np.uint64) ^ key) % np.uint64(modulus)).astype(np.int64)
