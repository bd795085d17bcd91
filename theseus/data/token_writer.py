"""Writing token files so that a kill at any moment loses and repeats nothing.

Files grow in a hidden folder beside the target. From time to time they are synced and a state
record says how long they are and how far the reading is; what was written after the last record
is cut off by the next attempt, which then reads on from there. At the end the sidecar is written
and the folder is renamed: a target that exists is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

from theseus.data._files import read_json, sync_folder, write_json
from theseus.data._settings import differences
from theseus.data.token_file import META, Sidecar
from theseus.errors import UserError

VERSION = 1
_STATE = ".state.json"


class TokenWriter:
    """The unfinished files of one target; hold the target's lock while one is open.

    Parameters
    ----------
    target
        The folder that shall come into being.
    names
        The names of its files.
    settings
        All that decides what is written. An attempt with other settings is refused.
    """

    def __init__(self, target: Path, names: Iterable[str], settings: Mapping[str, Any]) -> None:
        self._target = target
        self._folder = unfinished_folder(target)
        self._settings = dict(settings)
        self._state = self._read_state(tuple(names))
        self._files = {name: self._reopen(name) for name in self._state["lengths"]}

    @property
    def progress(self) -> dict[str, Any]:
        """What `save` was last given, in this attempt or an earlier one; empty at the start."""
        found: dict[str, Any] = self._state["progress"]
        return found

    def append(self, name: str, content: memoryview) -> None:
        """Add bytes to one of the files; they count from the next `save` on."""
        self._files[name].write(content)

    def save(self, progress: Mapping[str, Any]) -> None:
        """Make everything appended so far durable, together with what `progress` says of it."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        lengths = {name: file.tell() for name, file in self._files.items()}
        self._state = {**self._state, "lengths": lengths, "progress": dict(progress)}
        write_json(self._folder / _STATE, self._state)

    def finish(self, sidecar: Sidecar) -> None:
        """Put the complete files in their place; call `save` before."""
        self.close()
        sidecar.write(self._folder)
        self._folder.rename(self._target)
        sync_folder(self._target.parent)
        forget_state(self._target)

    def close(self) -> None:
        """Close the files; they can be gone on with."""
        for file in self._files.values():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_state(self, names: tuple[str, ...]) -> dict[str, Any]:
        path = self._folder / _STATE
        if path.is_file():
            state = read_json(path, VERSION)
            changed = differences(state["settings"], self._settings)
            if changed:
                told = "".join(f"\n  {line}" for line in changed)
                msg = (
                    f"an interrupted attempt to write {self._target} had other settings:{told}\n"
                    "set them back to go on with it, set data.suffix to write beside it, or remove "
                    f"{self._folder} to start over"
                )
                raise UserError(msg)
            return state
        self._folder.mkdir(parents=True, exist_ok=True)
        state = {
            "v": VERSION,
            "settings": self._settings,
            "lengths": dict.fromkeys(names, 0),
            "progress": {},
        }
        write_json(path, state)
        sync_folder(self._folder.parent)
        return state

    def _reopen(self, name: str) -> BinaryIO:
        path, length = self._folder / name, self._state["lengths"][name]
        file = path.open("r+b" if path.exists() else "w+b")
        if path.stat().st_size < length:
            file.close()
            msg = (
                f"{path} is shorter than the record beside it says: the folder was damaged; remove "
                f"{self._folder} and run the job again"
            )
            raise UserError(msg)
        file.truncate(length)
        file.seek(length)
        return file


def unfinished_folder(target: Path) -> Path:
    """Return where the files of a target grow."""
    return target.with_name(f".{target.name}.partial")


def finished_sidecar(target: Path) -> Sidecar | None:
    """Return the sidecar of a complete target, or None when there is no target yet."""
    if not target.exists():
        return None
    if not (target / META).is_file():
        msg = f"{target} is in the way: it holds no {META}, so theseus did not write it; move it"
        raise UserError(msg)
    forget_state(target)
    return Sidecar.read(target)


def forget_state(target: Path) -> None:
    """Remove the state record that came along with the rename."""
    (target / _STATE).unlink(missing_ok=True)
