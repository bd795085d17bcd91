"""Keys → classes: `@job`, `@dataset`, `@evaluation`, and what is built in.

Built-in entries are text (`module:Class`), so that listing the keys imports nothing: a class is
imported when it is asked for.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from theseus.errors import UserError, did_you_mean

Kind = Literal["job", "dataset", "evaluation"]
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Entry:
    """One registered key: where its class is (`module:Class`, or the class) and what it is for."""

    key: str
    target: str | type
    help: str

    def load(self) -> type:
        """Return the class, importing its module when it has not been imported yet."""
        if isinstance(self.target, type):
            return self.target
        module, name = self.target.split(":")
        loaded: type = getattr(importlib.import_module(module), name)
        return loaded


_BUILT_IN: dict[Kind, tuple[Entry, ...]] = {
    "job": (
        Entry(
            "data/tokenize/fineweb",
            "theseus.data.tokenize:TokenizeFineWeb",
            "stream FineWeb from the hub and write its tokens",
        ),
        Entry(
            "data/tokenize/hub",
            "theseus.data.tokenize:TokenizeHub",
            "stream any text dataset of the hub and write its tokens",
        ),
        Entry(
            "data/tokenize/stdlib",
            "theseus.data.tokenize:TokenizeStdLib",
            "write the tokens of the Python sources of this interpreter",
        ),
        Entry(
            "data/tokenize/text",
            "theseus.data.tokenize:TokenizeText",
            "write the tokens of text files that you name",
        ),
        Entry(
            "data/tokenizer/train",
            "theseus.data.train_tokenizer:TrainTokenizerJob",
            "train a byte-pair tokenizer on a dataset",
        ),
        Entry(
            "gpt/train/pretrain",
            "theseus.training.pretrain:PretrainGPT",
            "train a GPT from its first step",
        ),
    ),
    "dataset": (
        Entry("fineweb", "theseus.data.datasets.fineweb:FineWeb", "web pages, from the hub"),
        Entry("hub", "theseus.data.datasets.hub:Hub", "any text dataset of the hub"),
        Entry(
            "stdlib",
            "theseus.data.datasets.stdlib:StdLib",
            "the Python sources of this interpreter",
        ),
        Entry("text", "theseus.data.datasets.text:Text", "text files that you name"),
    ),
    "evaluation": (
        Entry(
            "perplexity",
            "theseus.evaluation.perplexity:Perplexity",
            "perplexity of the validation rows",
        ),
    ),
}

_registered: dict[Kind, dict[str, Entry]] = {
    kind: {entry.key: entry for entry in entries} for kind, entries in _BUILT_IN.items()
}
_announced: set[tuple[Kind, str]] = set()


def job(key: str) -> Callable[[Class], Class]:
    """Register a job class under `key`, for example `@job("gpt/train/pretrain")`."""
    return _registrar("job", key)


def dataset(key: str) -> Callable[[Class], Class]:
    """Register a dataset class under `key`."""
    return _registrar("dataset", key)


def evaluation(key: str) -> Callable[[Class], Class]:
    """Register an evaluation class under `key`."""
    return _registrar("evaluation", key)


def entries(kind: Kind) -> list[Entry]:
    """Return what is registered, sorted by key; nothing is imported."""
    return [entry for _, entry in sorted(_registered[kind].items())]


def keys(kind: Kind) -> list[str]:
    """Return the registered keys, sorted; nothing is imported."""
    return sorted(_registered[kind])


def find(kind: Kind, key: str) -> type:
    """Return the class registered under `key`.

    Raises
    ------
    UserError
        When there is none; the message names the nearest key.
    """
    entry = _registered[kind].get(key)
    if entry is None:
        hint = did_you_mean(key, _registered[kind])
        msg = f"no {kind} is registered as '{key}'{hint} (`theseus jobs` lists the jobs)"
        raise UserError(msg)
    return entry.load()


def key_of(kind: Kind, cls: type) -> str | None:
    """Return the key under which exactly this class is registered, or None."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    for entry in _registered[kind].values():
        if entry.target is cls or entry.target == path:
            return entry.key
    return None


def _registrar(kind: Kind, key: str) -> Callable[[Class], Class]:
    def register(cls: Class) -> Class:
        before = _registered[kind].get(key)
        path = f"{cls.__module__}:{cls.__qualname__}"
        if before is not None and before.target != path and (kind, key) not in _announced:
            _announced.add((kind, key))
            msg = f"{kind} '{key}' now means {path}; it meant {_path(before.target)} before"
            warnings.warn(msg, stacklevel=2)
        if before is None or before.target != path:
            summary = (cls.__doc__ or "").strip().split("\n")[0]
            _registered[kind][key] = Entry(key, cls, summary)
        return cls

    return register


def _path(target: str | type) -> str:
    return target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
