"""How much memory there is, and how much a state needs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Return the bytes of main memory that this process may use: the machine's or the container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [int(text) for path in CGROUP_LIMITS if (text := _read(path)).isdigit()]
    return min([total, *limits])


def array_bytes(leaves: Iterable[Any]) -> int:
    """Return the bytes of arrays or of their shapes (anything with `shape` and `dtype`)."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def in_words(count: float) -> str:
    """Return bytes as a person reads them, in powers of 1024: `31 MiB`, `2.4 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
