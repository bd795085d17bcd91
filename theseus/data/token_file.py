"""Token files: where they lie, what is written beside them, and reading them.

A dataset's folder holds `train.bin` and `val.bin`, nothing but token ids, and `meta.json`, which
says what the ids are. Documents stand one after the other, each ended by the tokenizer's end of
document. Files of kind `rows` keep rows apart instead: `train.ends.bin` has the end of each row
and `train.mask.bin` has 1 for each token that is to be learnt; of kind `pairs`, rows 2i and 2i+1
belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from theseus import registry
from theseus.data._files import path_safe, read_json, write_json
from theseus.errors import UserError

VERSION = 1
META = "meta.json"
SPLITS = ("train", "val")
# What a folder of each kind holds per split: ending and item type; None is the type of the ids.
FILES: dict[str, dict[str, str | None]] = {
    "packed": {".bin": None},
    "rows": {".bin": None, ".mask.bin": "uint8", ".ends.bin": "uint64"},
    "pairs": {".bin": None, ".mask.bin": "uint8", ".ends.bin": "uint64"},
}

Kind = Literal["packed", "rows", "pairs"]


@dataclass(frozen=True)
class Sidecar:
    """The content of `meta.json`.

    `tokens` and `documents` count per split; a document of kind `rows` or `pairs` is a row. `settings` has the
    keys of the job, `dataset` the key and the settings of the dataset, `source` what the dataset
    says of its text.
    """

    kind: Kind
    dtype: str
    tokens: Mapping[str, int]
    documents: Mapping[str, int]
    max_token_id: int
    tokenizer: Mapping[str, Any]
    dataset: Mapping[str, Any]
    settings: Mapping[str, Any]
    source: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write `meta.json`; last, so that a folder that has one is complete."""
        write_json(folder / META, {"v": VERSION, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Sidecar:
        """Return what `meta.json` says."""
        content = read_json(folder / META, VERSION)
        return cls(**{name: content[name] for name in cls.__dataclass_fields__})

    def comparable(self) -> dict[str, Any]:
        """Return all that decides the content of the files, flat, for `differences`."""
        return comparable(self.settings, self.dataset, self.tokenizer, self.source)


def comparable(
    settings: Mapping[str, Any],
    dataset: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    source: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all that decides the content of token files, flat, for `differences`."""
    vocabulary = {f"tokenizer.{key}": tokenizer[key] for key in tokenizer if key != "name"}
    facts = {f"source.{key}": value for key, value in source.items()}
    return {"dataset": dataset["key"], **dataset["settings"], **settings, **vocabulary, **facts}


def dtype_for(vocab_size: int) -> str:
    """Return the smallest type that holds every id of the vocabulary."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def dataset_key(dataset: type | str) -> str:
    """Return the key of a dataset: the one it is registered under, or the name of its class."""
    if isinstance(dataset, str):
        return dataset
    key = registry.key_of("dataset", dataset)
    if key is not None:
        return key
    # A cell that was run again made a new class under the key; a job may still hold the old one.
    path = f"{dataset.__module__}:{dataset.__qualname__}"
    for entry in registry.entries("dataset"):
        target = entry.target
        if not isinstance(target, str) and f"{target.__module__}:{target.__qualname__}" == path:
            return entry.key
    return dataset.__name__


def token_folder(root: Path, key: str, suffix: str = "", kind: Kind = "packed") -> Path:
    """Return where the token files of a dataset lie under a root; each kind has its own folder."""
    return root / "data" / (path_safe(key + suffix) + ("" if kind == "packed" else f".{kind}"))


class TokenFile:
    """One split of a dataset's token files, memory-mapped."""

    def __init__(self, folder: Path, split: str, sidecar: Sidecar) -> None:
        self.folder = folder
        self.split = split
        self.sidecar = sidecar
        self.documents = sidecar.documents[split]
        self.tokens = self._open(".bin", sidecar.dtype, sidecar.tokens[split])
        if sidecar.kind != "packed":
            self.ends = self._open(".ends.bin", "uint64", self.documents)
            self.mask = self._open(".mask.bin", "uint8", sidecar.tokens[split])

    def __len__(self) -> int:
        return len(self.tokens)

    def _open(self, ending: str, dtype: str, count: int) -> npt.NDArray[Any]:
        path = self.folder / f"{self.split}{ending}"
        item = np.dtype(dtype).newbyteorder("<")
        found = path.stat().st_size if path.is_file() else None
        if found != count * item.itemsize:
            has = "is missing" if found is None else f"has {found} bytes"
            msg = (
                f"{path} {has}, but {META} beside it promises {count} items of {item.itemsize} "
                f"bytes: the folder was damaged; remove {self.folder} and tokenize again"
            )
            raise UserError(msg)
        if count == 0:
            return np.empty(0, dtype=item)
        # Seen as a plain array, whose slices cost less than those of a memmap.
        return np.asarray(np.memmap(path, dtype=item, mode="r"))
