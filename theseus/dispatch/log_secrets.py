"""Secrets that a job has printed: covered where its log is read, whatever reads it.

The copy of a log must stay byte for byte what the host has, or no one could go on where it ends;
so a secret is covered on its way from there to a reader, by as many stars as it has bytes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from theseus.dispatch._log_events import Notice, Piece
from theseus.dispatch.inventory import inventory_path, load_inventory
from theseus.dispatch.registry import Entry
from theseus.dispatch.secrets import Secret, forms_of, is_telling, secrets_in

_KEPT = 16  # inventories, each as it was at some time

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
            if len(_known) >= _KEPT:
                _known.clear()
            _known[stamp] = found
        return found


def covered(
    events: Iterable[Piece | Notice], secrets: Iterable[Secret]
) -> Iterator[Piece | Notice]:
    """Yield the events of following, with stars in place of these secrets.

    Bytes that may be the beginning of a secret are kept until what follows tells. Offsets stay what
    they are.
    """
    forms = forms_of(secrets)
    if not forms:
        yield from events
        return
    covers: dict[str, Cover] = {}
    for event in events:
        if isinstance(event, Notice):
            yield event
            continue
        cover = covers.setdefault(event.name, Cover(forms))
        if piece := cover.feed(event):
            yield piece
    for cover in covers.values():
        if piece := cover.rest():
            yield piece


class Cover:
    """One log on its way to one reader.

    Parameters
    ----------
    forms
        What is covered, as `forms_of` gives it.
    """

    def __init__(self, forms: Iterable[str]) -> None:
        written = [(form.encode("utf-8", "surrogateescape"), is_telling(form)) for form in forms]
        self._long = [form for form, telling in written if telling]
        self._short = [form for form, telling in written if not telling]
        words = b"|".join(map(re.escape, self._short))
        # A short one counts only where it stands alone.
        self._alone = re.compile(rb"(?<![A-Za-z0-9])(?:%b)(?![A-Za-z0-9])" % words)
        self._kept: Piece | None = None
        self._before = b""

    def feed(self, piece: Piece) -> Piece | None:
        """Return what can be shown by now."""
        if self._kept is not None and self._kept.end == piece.offset:
            piece = Piece(piece.name, self._kept.offset, self._kept.data + piece.data)
        self._kept = None
        data = self._covered(piece.data)
        keep = self._open(data)
        shown = Piece(piece.name, piece.offset, data[: len(data) - keep])
        if keep:
            self._kept = Piece(piece.name, shown.end, data[len(data) - keep :])
        self._before = shown.data[-1:] or self._before
        return shown if shown.data else None

    def rest(self) -> Piece | None:
        """Return what was kept when the log has ended."""
        kept, self._kept = self._kept, None
        return kept and Piece(kept.name, kept.offset, self._covered(kept.data, ended=True))

    def _covered(self, data: bytes, *, ended: bool = False) -> bytes:
        for form in self._long:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        if self._short:
            start = len(self._before)
            limit = len(data) if ended else len(data) - self._open(data)
            whole = self._before + data
            covering = bytearray(whole)
            for found in self._alone.finditer(whole):
                if found.end() <= start + limit:
                    covering[found.start() : found.end()] = b"*" * (found.end() - found.start())
            data = bytes(covering[start:])
        return data

    def _open(self, data: bytes) -> int:
        """Return how many of the last bytes may yet turn out to be a secret."""
        return max(
            (
                size
                for form, most in (
                    *((form, len(form) - 1) for form in self._long),
                    *((form, len(form)) for form in self._short),
                )
                for size in range(1, min(most, len(data)) + 1)
                if data.endswith(form[:size])
            ),
            default=0,
        )
