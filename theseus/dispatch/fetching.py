"""Bringing a run's folder here: only what is not here yet, each file whole and checked.

The names come from a host, so they are looked at before anything is written under them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from theseus.dispatch.transport import Progress, Transport
from theseus.errors import UserError

# $1 the run's folder, $2 `yes` with checkpoints. Prints `size time path` for each file, NUL between.
# What only the worker needs stays there; checkpoints and results may lie elsewhere, behind a link.
_LIST = r"""
cd "$1" || exit 2
list() {
  find "$@" -type f ! -name '*.part' ! -name '*.tmp' ! -path '*/.*' -exec sh -c '
    if stat -c %s / >/dev/null 2>&1; then form="-c%s %Y"; else form="-f%z %m"; fi
    for file; do printf "%s %s\0" "$(stat -L "$form" "$file")" "$file"; done' sh {} +
}
for name in run.json config.yaml status.json metrics.jsonl events.jsonl; do
  [ ! -f "$name" ] || list "$name"
done
for name in log results; do [ ! -d "$name" ] || list "$name/"; done
[ "$2" != yes ] || [ ! -d checkpoints ] || list checkpoints/
"""


class FetchError(UserError):
    """A run's files cannot be brought here."""


@dataclass(frozen=True)
class RemoteFile:
    """One file of a run's folder on its host."""

    path: PurePosixPath
    size: int
    changed: int


def fetch(
    transport: Transport,
    folder: str,
    target: Path,
    *,
    checkpoints: bool,
    progress: Progress | None,
) -> list[Path]:
    """Bring what is not here yet; return the files that were brought."""
    answer = transport.run(_LIST, folder, "yes" if checkpoints else "no", timeout=300)
    if answer.status == 2:
        msg = f"host '{transport.name}': {folder} is not there"
        raise FetchError(msg)
    listed = list(parse_list(answer.out))
    target.mkdir(parents=True, exist_ok=True)
    whole, done = sum(one.size for one in listed), 0
    brought = []
    for one in listed:
        here = target / one.path
        if not _is_here(here, one):
            _check_inside(here, target)
            at = done

            def told(sent: int, _: int | None, at: int = at) -> None:
                if progress is not None:
                    progress(at + sent, whole)

            transport.get(f"{folder}/{one.path}", here, progress=told)
            os.utime(here, (one.changed, one.changed))
            brought.append(here)
        done += one.size
        if progress is not None:
            progress(done, whole)
    return brought


def parse_list(answer: bytes) -> Iterator[RemoteFile]:
    """Yield the files that a host lists; a name that could lead out of the folder is refused."""
    for entry in answer.split(b"\0"):
        size, _, rest = entry.partition(b" ")
        changed, _, name = rest.partition(b" ")
        if not (size.isdigit() and changed.isdigit() and name):
            continue
        path = PurePosixPath(os.fsdecode(name))
        if path.is_absolute() or ".." in path.parts or "\\" in str(path):
            msg = f"the host names a file that would lie outside of the run's folder: {str(path)!r}"
            raise FetchError(msg)
        yield RemoteFile(path, int(size), int(changed))


def _is_here(path: Path, one: RemoteFile) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_size == one.size and int(found.st_mtime) == one.changed


def _check_inside(path: Path, target: Path) -> None:
    """Refuse to write through a link that leads out of the target."""
    if path.is_symlink() or not path.parent.resolve().is_relative_to(target.resolve()):
        msg = f"{path} is, or lies behind, a link that leads elsewhere: fetch into a new folder"
        raise FetchError(msg)
