"""Which secrets the log of a run may hold: what every view of it covers."""

from __future__ import annotations

import threading
from pathlib import Path

from theseus.dispatch.inventory import inventory_path, load_inventory
from theseus.dispatch.registry import Entry
from theseus.dispatch.secrets import Secret, secrets_in

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
