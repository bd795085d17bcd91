"""Logs as a browser may have them: any part of a copy, with the secrets of its host covered.

Where a part begins or ends must not matter: who asks for a log byte by byte learns no more than who
asks for all of it. So what is covered is always a little more than what is given.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from theseus.dispatch._log_copy import copy_path, read_copy
from theseus.dispatch._log_secrets import covered
from theseus.dispatch.inventory import inventory_path, load_inventory
from theseus.dispatch.logs import Piece
from theseus.dispatch.registry import Entry
from theseus.dispatch.secrets import Secret, forms_of, secrets_in

BLOCK = 256 * 1024  # bytes that are read and given at once

_Stamp = tuple[str, int, int]
_known: dict[_Stamp, dict[str, tuple[Secret, ...]]] = {}
_lock = threading.Lock()


def secrets_of(entry: Entry) -> tuple[Secret, ...]:
    """Return the secrets that a run's log may hold: those of its host.

    Of a host that the inventory has no more, nobody knows which they were: those of all hosts.

    Raises
    ------
    UserError
        When the inventory cannot be read, and so what to cover is not known.
    """
    hosts = _secrets_by_host(entry.inventory)
    if entry.host in hosts:
        return hosts[entry.host]
    return tuple({secret for secrets in hosts.values() for secret in secrets})


def _secrets_by_host(given: str | None) -> dict[str, tuple[Secret, ...]]:
    path = inventory_path(Path(given) if given else None)
    if path is None:
        return {}
    # Read again when it was changed; a list of runs asks for it once for each of them.
    status = path.stat()
    stamp = (str(path), status.st_mtime_ns, status.st_size)
    with _lock:
        found = _known.get(stamp)
        if found is None:
            known = load_inventory(path)
            found = {name: secrets_in(host.environment) for name, host in known.hosts.items()}
            _known.clear()
            _known[stamp] = found
        return found


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
