"""Logs as a browser may have them: any part of a copy, with the secrets of its host covered.

Where a part begins or ends must not matter: who asks for a log byte by byte learns no more than who
asks for all of it. So what is covered is always a little more than what is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from theseus.dispatch._log_copy import copy_path, read_copy
from theseus.dispatch.log_secrets import covered
from theseus.dispatch.logs import Piece
from theseus.dispatch.secrets import Secret, forms_of

BLOCK = 256 * 1024  # bytes that are read and given at once


def size_of(folder: Path, name: str) -> int:
    """Return how many bytes of a log are here."""
    try:
        return copy_path(folder, name).stat().st_size
    except FileNotFoundError:
        return 0


def parts(
    folder: Path, name: str, start: int, end: int, secrets: tuple[Secret, ...]
) -> Iterator[Piece]:
    """Yield the bytes of a log's copy from `start` to before `end`, in blocks, covered."""
    margin = margin_of(secrets)

    def read() -> Iterator[Piece]:
        at, until = max(start - margin, 0), end + margin
        while at < until and (data := read_copy(folder, name, at, min(BLOCK, until - at))):
            yield Piece(name, at, data)
            at += len(data)

    for piece in covered(read(), secrets):
        assert isinstance(piece, Piece)  # no host is asked, so there is nothing to notice
        given = cut(piece, start, end)
        if given.data:
            yield given


def margin_of(secrets: tuple[Secret, ...]) -> int:
    """Return how many bytes around a part decide what is covered in it."""
    lengths = (len(form.encode("utf-8", "surrogateescape")) for form in forms_of(secrets))
    return max(lengths, default=-1) + 1


def cut(piece: Piece, start: int, end: int) -> Piece:
    """Return what of a piece lies from `start` to before `end`."""
    first = min(max(start - piece.offset, 0), len(piece.data))
    last = min(max(end - piece.offset, first), len(piece.data))
    return Piece(piece.name, piece.offset + first, piece.data[first:last])
