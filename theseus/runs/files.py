"""How records are written and read: whole files by renaming, lines by appending."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from theseus.errors import UserError

VERSION = 1


class RecordError(UserError):
    """A run's records cannot be written or read."""


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what the operating system says about `folder` into something a user can mend."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        msg = (
            f"cannot write the records of a run in '{folder}': {reason}. "
            "Make room or change the permissions there, or choose another root."
        )
        raise RecordError(msg) from error


def encode(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON, with the version in front.

    JSON has no word for NaN and the infinities; they are written as the strings `NaN`, `Infinity`
    and `-Infinity`, which `float()` here and `Number()` in a browser both read.
    """
    record = {"v": VERSION, **record}
    try:
        return _encode(record)
    except ValueError:  # "Out of range float values are not JSON compliant": rare, so tried last
        return _encode(_finite(record))


_encode = json.JSONEncoder(
    allow_nan=False, ensure_ascii=False, separators=(", ", ": "), default=str
).encode


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def decode(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the record in one JSON text; refuse a version that is not known.

    Raises
    ------
    ValueError
        When the text is not a JSON object.
    RecordError
        When it was written by a newer theseus.
    """
    record = json.loads(text)
    if not isinstance(record, dict):
        msg = f"{where} holds no record"
        raise ValueError(msg)
    version = record.pop("v", None)
    if version != VERSION:
        msg = (
            f"{where} is written in form {version!r}, and this theseus reads form {VERSION}: "
            "upgrade theseus-jupyter to read it"
        )
        raise RecordError(msg)
    return record


def write_json(path: Path, record: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write a whole record so that a reader sees the old one or the new one, never a part.

    Parameters
    ----------
    path
        The file; a temporary one beside it is renamed to it.
    record
        What is written, as JSON, with the version added.
    durable
        Wait until the disk has it. A heartbeat need not.
    """
    write_text(path, encode(record) + "\n", durable=durable)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a whole text file the way `write_json` does."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explained(path.parent):
        try:
            with temporary.open("wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def read_json(path: Path) -> dict[str, Any]:
    """Return the record in a file that `write_json` wrote.

    Raises
    ------
    RecordError
        When there is none, or it cannot be read.
    """
    try:
        return decode(path.read_bytes(), f"'{path}'")
    except FileNotFoundError:
        msg = f"'{path.parent}' is not the folder of a run: it has no {path.name}"
        raise RecordError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"cannot read '{path}': {error}"
        raise RecordError(msg) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines, oldest first; none when there is no file.

    A last line without an end is still being written, or was when its writer died: it is left out.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    lines = data.split(b"\n")[:-1]
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(decode(line, f"line {number} of '{path}'"))
        except ValueError as error:
            msg = f"line {number} of '{path}' cannot be read: {error}"
            raise RecordError(msg) from error
    return records


class Appender:
    """A file that only grows; what is appended is handed to the operating system at once.

    So it survives the death of this process.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        with explained(self._folder):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes) -> None:
        """Append bytes as they are."""
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            with explained(self._folder):
                raise

    def close(self) -> None:
        """Close the file; appending is over."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Lines(Appender):
    """A file of JSON lines that grows by whole records.

    A line that an earlier writer left unfinished is completed when it is whole but for its end,
    and cut off otherwise.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with explained(self._folder):
            self._mend()

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record."""
        self.write(encode(record).encode("utf-8", "backslashreplace") + b"\n")

    def _mend(self) -> None:
        size = os.fstat(self._file).st_size
        tail, start = b"", size
        while start > 0 and b"\n" not in tail:
            start = max(0, start - 65536)
            tail = os.pread(self._file, size - start, start)
        torn = tail.rpartition(b"\n")[2]
        if not torn:
            return
        try:
            json.loads(torn)
        except ValueError:
            os.ftruncate(self._file, size - len(torn))
        else:
            self.write(b"\n")
