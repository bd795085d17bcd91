"""One column of a hub dataset, or of local files, as a stream that outlives network blips."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from theseus.errors import UserError, did_you_mean, not_installed

_log = logging.getLogger(__name__)

# A blip is waited out in 1 + 2 + 4 + … seconds, at most a minute at a time; eight failures in a
# row without one document between them are no blip.
ATTEMPTS = 8
LONGEST_WAIT = 60.0

_READERS = {
    "parquet": (".parquet",),
    "json": (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".json.gz", ".ndjson"),
}


@dataclass(frozen=True)
class Remote:
    """Where the texts are: a dataset of the hub, or a folder or file on this machine.

    `key` is the configuration key of the path, which the error messages name.
    """

    key: str
    path: str
    name: str | None
    split: str
    column: str
    revision: str | None = None

    def starting_at(self, index: int) -> Iterator[str]:
        """Iterate over the texts from this one on; after a network error, from the next one on.

        Raises
        ------
        UserError
            When there is nothing to read at the path, or the hub cannot be reached: at once when
            nothing has been read yet, else after several attempts.
        """
        begun, failures = index, 0
        while True:
            try:
                for text in self._texts(index):
                    failures = 0
                    index += 1
                    yield text
                return
            except Exception as error:
                if isinstance(error, UserError) or not is_network_error(error):
                    raise
                failures += 1
                if failures >= ATTEMPTS or index == begun:
                    raise self._unreachable(error) from error
                wait = min(2.0 ** (failures - 1), LONGEST_WAIT)
                _log.warning(
                    "reading '%s' failed before document %d (%s); trying again in %.0f s",
                    self.path,
                    index,
                    _first_line(error),
                    wait,
                )
                time.sleep(wait)

    def _texts(self, index: int) -> Iterator[str]:
        rows = self.open()
        # Skipping inside the library, where it can pass over whole files and row groups.
        for number, row in enumerate(rows.skip(index) if index else rows, index):
            try:
                text = row[self.column]
            except KeyError:
                known = [str(name) for name in row]
                hint = did_you_mean(self.column, known)
                msg = (
                    f"'{self.path}' has no column '{self.column}'{hint} (its columns: "
                    f"{', '.join(known)})"
                )
                raise UserError(msg) from None
            if not isinstance(text, str):
                msg = (
                    f"column '{self.column}' of '{self.path}' holds {type(text).__name__}, not "
                    f"text, in row {number}"
                )
                raise UserError(msg)
            yield text

    def open(self) -> Any:
        """Return the rows as a streaming dataset of the `datasets` library.

        Raises
        ------
        UserError
            When the library is missing, or there is nothing at the path. Network errors come as
            they are.
        """
        try:
            import datasets
        except ImportError:
            raise not_installed("reading hub datasets and parquet files", "datasets") from None
        local = Path(self.path).expanduser()
        if local.exists():
            return self._open_local(local)
        if self.path.startswith(("/", "./", "../", "~")):
            msg = f"{self.key}: no file or folder '{self.path}' on this machine"
            raise UserError(msg)
        _resolve_hub()
        try:
            return datasets.load_dataset(
                self.path, self.name, split=self.split, revision=self.revision, streaming=True
            )
        except Exception as error:
            missing = type(error).__name__ == "DatasetNotFoundError" or isinstance(
                error, ValueError
            )
            if missing and not is_network_error(error):
                msg = f"{self.key}: {_first_line(error)}"
                raise UserError(msg) from error
            raise

    def _open_local(self, local: Path) -> Any:
        import datasets
        from datasets.io.json import JsonDatasetReader
        from datasets.io.parquet import ParquetDatasetReader

        if self._is_clone(local):
            return datasets.load_dataset(str(local), self.name, split=self.split, streaming=True)
        kind, files = self._local_files(local)
        # Not `load_dataset`: it would tell the hub which reader was used, and we were asked for
        # local files only.
        reader = ParquetDatasetReader if kind == "parquet" else JsonDatasetReader
        return reader({"train": files}, split="train", streaming=True).read()

    def _is_clone(self, local: Path) -> bool:
        """Tell whether this is a copy of a hub dataset whose card says which files are what."""
        card = local / "README.md"
        described = card.is_file() and "\nconfigs:" in card.read_text(encoding="utf-8")
        return described and self._part(local) is None

    def _part(self, local: Path) -> Path | None:
        """Return the folder of the wanted part; a copy of some parts only has no others."""
        if self.name:
            for folder in (local / self.name, local / "data" / self.name):
                if folder.is_dir():
                    return folder
        return None

    def _local_files(self, local: Path) -> tuple[str, list[str]]:
        if local.is_file():
            found = [local]
        else:
            root = self._part(local) or local
            found = sorted(path for path in root.rglob("*") if path.is_file())
        for kind, endings in _READERS.items():
            files = [str(path) for path in found if path.name.endswith(endings)]
            if files:
                return kind, files
        endings_text = ", ".join(ending for endings in _READERS.values() for ending in endings)
        msg = f"{self.key}: no data files in '{self.path}' (looked for {endings_text})"
        raise UserError(msg)

    def _unreachable(self, error: BaseException) -> UserError:
        part = f" ({self.name})" if self.name else ""
        return UserError(
            f"the hub dataset '{self.path}'{part} cannot be reached: {_first_line(error)}\n"
            "this machine needs a way to huggingface.co, or HF_ENDPOINT set to a mirror; "
            f"or set {self.key} to a folder of .parquet or .jsonl files on this machine"
        )


def _resolve_hub() -> None:
    """Fail at once where the hub's name cannot be resolved.

    The library would try for half a minute first, and print each attempt.
    """
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname
    if host and not constants.HF_HUB_OFFLINE and not getproxies():
        socket.getaddrinfo(host, 443)


def is_network_error(error: BaseException) -> bool:
    """Tell whether an error, or one that caused it, comes from the network.

    The libraries below raise errors of their own network stacks (requests, httpx, aiohttp, fsspec),
    so the classes are told by where they come from.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionError | TimeoutError | socket.gaierror):
            return True
        for cls in type(seen).__mro__:
            root = cls.__module__.partition(".")[0]
            if root in {"requests", "urllib3", "httpx", "httpcore", "aiohttp"}:
                return True
            if cls.__name__ in {
                "OfflineModeIsEnabled",
                "HfHubHTTPError",
                "FSTimeoutError",
                "LocalEntryNotFoundError",
            }:
                return True
        seen = seen.__cause__ or seen.__context__
    return False


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return text or type(error).__name__
