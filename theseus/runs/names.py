"""Free text → parts of a path; what a run is → its id."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

MAX_PART = 64  # a name and its id stay far below the 255 bytes that file systems allow
ID_LENGTH = 8

_APOSTROPHES = dict.fromkeys(map(ord, "'’ʼ`"))


def path_part(text: str, *, empty: str = "unnamed") -> str:
    """Return `text` as one safe part of a path, on any file system and in any shell.

    Only ASCII letters, digits and `._+=-` remain, never a leading dot or dash; accents are dropped
    with their letter kept. Different texts may give the same part: a run's folder ends with the
    run's id, which tells them apart.

    Parameters
    ----------
    text
        What the user wrote, for example `dont matter what's here now`.
    empty
        What is returned when nothing remains.
    """
    plain = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES))
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    safe = re.sub(r"[^A-Za-z0-9._+=]+", "-", plain)
    safe = re.sub(r"\.{2,}", ".", safe)
    return safe.strip("-.")[:MAX_PART].rstrip("-.") or empty


def canonical(facts: Any) -> bytes:
    """Return the one JSON text of `facts`: sorted keys, no spaces, UTF-8."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return text.encode("utf-8", "surrogatepass")


def run_digest(identity: Mapping[str, str], config: Mapping[str, Any], *, fresh: int = 0) -> str:
    """Return the digest of everything that makes two executions the same run.

    Parameters
    ----------
    identity
        The job (its key, or the path of its class), the digest of the user's own code, and the
        name, project and group as written.
    config
        The resolved configuration.
    fresh
        0, or which of the fresh runs of the same thing this is.
    """
    facts = {**identity, "config": config, "fresh": fresh}
    return hashlib.sha256(canonical(facts)).hexdigest()


def run_id(digest: str) -> str:
    """Return the short form of a digest: what people read, type and see in a folder's name."""
    return digest[:ID_LENGTH]
