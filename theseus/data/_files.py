"""Files that survive a crash: written whole and renamed, one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from theseus.errors import UserError


def path_safe(text: str) -> str:
    """Return `text` as one part of a path: different texts stay different, plain ones as they are.

    A leading dot is escaped too: hidden names are for files that are being written.
    """
    safe = quote(text, safe=" +,=@")
    return "%2E" + safe[1:] if safe.startswith(".") else safe


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file so that after a crash either the old content or the new one is there."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def read_json(path: Path, version: int) -> dict[str, Any]:
    """Return the content of a record, refusing one of another format version."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = content.get("v")
    if found != version:
        msg = (
            f"{path} has format version {found}, this theseus reads {version}: use the theseus "
            "that wrote it, or remove the folder and run the job again"
        )
        raise UserError(msg)
    return content


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable: a rename is only on disk when its folder is."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def only_writer(lock: Path, what: str) -> Iterator[None]:
    """Hold a lock file while writing `what`; the system releases it however the process ends.

    The empty file stays: removing it would let two others lock two files of the same name.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"{what} is being written by another process; wait for it, or stop it first"
            raise UserError(msg) from None
        yield
