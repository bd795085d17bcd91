"""The jobs that write the tokens of a dataset.

A new one is one line:

    @job("data/tokenize/mine")
    class TokenizeMine(TokenizeVariableDatasetJob):
        DATASET = Mine
"""

from __future__ import annotations

import shutil
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from theseus.config import configure, field
from theseus.data._files import only_writer
from theseus.data._packing import Counts, Packer
from theseus.data._rows import RowsLayout
from theseus.data._settings import differences, settings_of
from theseus.data._tokenizing import Attempt, Layout, Pace
from theseus.data.datasets import FineWeb, Hub, StdLib, Text
from theseus.data.datasets.base import (
    ChatTemplateDataset,
    ContrastiveDataset,
    Dataset,
    PretrainingDataset,
    StreamingChatTemplateDataset,
    StreamingContrastiveDataset,
    StreamingPretrainingDataset,
)
from theseus.data.token_file import (
    FILES,
    SPLITS,
    Kind,
    Sidecar,
    comparable,
    dataset_key,
    dtype_for,
    token_folder,
)
from theseus.data.token_writer import TokenWriter, finished_sidecar, unfinished_folder
from theseus.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer
from theseus.errors import UserError
from theseus.job import Job, Recorder


@dataclass
class TokenizeConfig:
    """How much to tokenize, and how to split it."""

    max_tokens: int | None = field(
        "data/max_tokens", default=None, ge=1, log=True, help="write exactly so many, if there are"
    )
    max_samples: int | None = field(
        "data/max_samples", default=None, ge=1, log=True, help="read at most so many documents"
    )
    val_pct: float = field(
        "data/val_pct", default=0.01, ge=0, le=1, help="share of the documents for validation"
    )
    seed: int = field("data/seed", default=0, help="which documents are for validation")
    suffix: str = field(
        "data/suffix", default="", help="appended to the folder's name, to keep several variants"
    )


class TokenizeJob(Job):
    """The common part of the jobs that write token files; see the subclasses."""

    DATASET: ClassVar[type[Dataset[Any]] | None] = None
    TAKES: ClassVar[tuple[type, ...]]
    PACE: ClassVar[Pace] = Pace()

    @classmethod
    def configs(cls) -> tuple[type, ...]:
        """Return the job's own keys, those of its dataset and those of the tokenizer."""
        declared = (TokenizeConfig, cls.CONFIG, cls.dataset().CONFIG, TokenizerConfig)
        return tuple(dict.fromkeys(each for each in declared if each is not None))

    @classmethod
    def dataset(cls) -> type[Dataset[Any]]:
        """Return the class of the dataset, refusing one that this job cannot write."""
        given: Any = cls.DATASET
        names = " or ".join(taken.__name__ for taken in cls.TAKES)
        if given is None:
            msg = (
                f"{cls.__qualname__} says not what to tokenize: give it `DATASET = …`, a class "
                f"derived from {names}"
            )
            raise UserError(msg)
        if not (isinstance(given, type) and issubclass(given, cls.TAKES)):
            name = getattr(given, "__qualname__", repr(given))
            msg = f"{cls.__qualname__}.DATASET is {name}, not a class derived from {names}"
            raise UserError(msg)
        return cast(type[Dataset[Any]], given)

    @classmethod
    @abstractmethod
    def kind(cls) -> Kind:
        """Return what kind of files this writes."""

    @abstractmethod
    def layout(self, tokenizer: Tokenizer, config: TokenizeConfig) -> Layout:
        """Return how items become the content of files."""

    def check(self) -> None:
        """Refuse settings that cannot work and a tokenizer that is not there."""
        config = configure(TokenizeConfig)
        if config.val_pct >= 1:
            msg = (
                f"data.val_pct is {config.val_pct:g}: that keeps every document for validation and "
                "none for training; it is a share, such as 0.01"
            )
            raise UserError(msg)
        self.dataset().check()
        load_tokenizer(configure(TokenizerConfig), self.root)

    def run(self, recorder: Recorder) -> None:
        """Write the files, from where an earlier attempt got to."""
        config = configure(TokenizeConfig)
        cls = self.dataset()
        key, kind = dataset_key(cls), self.kind()
        target = token_folder(self.root, key, config.suffix, kind)
        dataset = cls()
        tokenizer = load_tokenizer(configure(TokenizerConfig), self.root)
        settings = settings_of(TokenizeConfig, self.CONFIG)
        del settings["data.suffix"]
        facts: dict[str, Any] = {
            "settings": settings,
            "dataset": {"key": key, "settings": settings_of(cls.CONFIG)},
            "tokenizer": tokenizer.identity(),
            "source": dict(dataset.source()),
        }
        with only_writer(target.with_name(f".{target.name}.lock"), str(target)):
            there = finished_sidecar(target)
            if there is not None:
                _refuse_another(target, there, comparable(**facts) | {"kind": kind})
                recorder.event(
                    "unchanged",
                    message=f"nothing to do: {target} holds these tokens already",
                    folder=str(target),
                )
                done = sum(there.tokens.values())
                recorder.progress(
                    done, done, unit="tokens", documents=sum(there.documents.values())
                )
                return
            names = [f"{split}{ending}" for split in SPLITS for ending in FILES[kind]]
            attempt = Attempt(
                recorder,
                dataset,
                self.layout(tokenizer, config),
                what=f"tokenizing '{key}'",
                max_tokens=config.max_tokens,
                max_samples=config.max_samples,
                pace=self.PACE,
            )
            with TokenWriter(target, names, comparable(**facts) | {"kind": kind}) as writer:
                counts = attempt.run(writer)
                if not counts.items:
                    shutil.rmtree(unfinished_folder(target))
                    raise UserError(_nothing_came(key, facts, counts))
                _warn(recorder, counts, config)
                writer.finish(
                    Sidecar(
                        kind=kind,
                        dtype=dtype_for(tokenizer.vocab_size),
                        tokens=counts.tokens,
                        documents=counts.documents,
                        max_token_id=counts.max_token_id,
                        **facts,
                    )
                )


class TokenizeVariableDatasetJob(TokenizeJob):
    """Write the documents of a text dataset one after the other: packed tokens.

    Stop it at any moment, even by `kill -9`, and run it again: it goes on, and the files are byte
    for byte those of an uninterrupted run.
    """

    TAKES = (PretrainingDataset, StreamingPretrainingDataset)

    @classmethod
    def kind(cls) -> Kind:
        """Return that documents are packed."""
        return "packed"

    def layout(self, tokenizer: Tokenizer, config: TokenizeConfig) -> Layout:
        """Return the layout of packed documents."""
        packer = Packer(
            vocab_size=tokenizer.vocab_size,
            eos_id=tokenizer.eos_id,
            max_tokens=config.max_tokens,
            val_pct=config.val_pct,
            seed=config.seed,
        )
        return PackedLayout(tokenizer, packer)


@dataclass(frozen=True)
class PackedLayout:
    """Texts, encoded and packed."""

    tokenizer: Tokenizer
    packer: Packer

    def size(self, item: str) -> int:
        """Return the number of characters."""
        return len(item)

    def encode(self, items: list[str]) -> list[Any]:
        """Return the ids of each text."""
        return self.tokenizer.encode_batch(items)

    def pack(self, encoded: Any, counts: Counts) -> tuple[dict[str, Any], Counts]:
        """Return what to append to which file."""
        return self.packer.pack(encoded, counts)


@dataclass
class BlockwiseConfig:
    """What is learnt of a conversation."""

    assistant_only: bool = field(
        "data/assistant_only",
        default=True,
        help="of a conversation, learn only what the assistant says",
    )


class TokenizeBlockwiseDatasetJob(TokenizeJob):
    """Write texts, conversations or pairs row by row; a trainer fills the rows up with padding.

    What is to be learnt is written apart from the tokens and has nothing to do with padding: the
    model reads all of a conversation, whatever it is asked to learn of it. Interrupted, it goes on
    as `TokenizeVariableDatasetJob` does.
    """

    CONFIG = BlockwiseConfig
    TAKES = (
        PretrainingDataset,
        StreamingPretrainingDataset,
        ChatTemplateDataset,
        StreamingChatTemplateDataset,
        ContrastiveDataset,
        StreamingContrastiveDataset,
    )

    @classmethod
    def kind(cls) -> Kind:
        """Return `pairs` for a dataset of pairs, else `rows`."""
        pairs = issubclass(cls.dataset(), ContrastiveDataset | StreamingContrastiveDataset)
        return "pairs" if pairs else "rows"

    def layout(self, tokenizer: Tokenizer, config: TokenizeConfig) -> Layout:
        """Return the layout of rows that stand alone."""
        return RowsLayout(
            tokenizer=tokenizer,
            assistant_only=configure(BlockwiseConfig).assistant_only,
            max_tokens=config.max_tokens,
            val_pct=config.val_pct,
            seed=config.seed,
        )


class TokenizeFineWeb(TokenizeVariableDatasetJob):
    """Stream FineWeb from the hub and write its tokens."""

    DATASET = FineWeb


class TokenizeHub(TokenizeVariableDatasetJob):
    """Stream any text dataset of the hub and write its tokens."""

    DATASET = Hub


class TokenizeStdLib(TokenizeVariableDatasetJob):
    """Write the tokens of the Python sources of this interpreter."""

    DATASET = StdLib


class TokenizeText(TokenizeVariableDatasetJob):
    """Write the tokens of text files that you name."""

    DATASET = Text


def _refuse_another(target: Any, there: Sidecar, wanted: dict[str, Any]) -> None:
    changed = differences(there.comparable() | {"kind": there.kind}, wanted)
    if changed:
        told = "".join(f"\n  {line}" for line in changed)
        msg = (
            f"{target} holds tokens that were made with other settings:{told}\n"
            "set data.suffix to write these beside them (for example '-2'), or remove that folder"
        )
        raise UserError(msg)


def _nothing_came(key: str, facts: dict[str, Any], counts: Counts) -> str:
    if counts.full:
        most = facts["settings"]["data.max_tokens"]
        return f"the first row of '{key}' is longer than data.max_tokens={most}; raise it"
    settings = ", ".join(
        f"{name}={value!r}" for name, value in facts["dataset"]["settings"].items()
    )
    return f"the dataset '{key}' gave no document" + (f" (with {settings})" if settings else "")


def _warn(recorder: Recorder, counts: Counts, config: TokenizeConfig) -> None:
    if config.val_pct and not counts.documents["val"]:
        msg = (
            f"none of {counts.items} documents was chosen for validation by data.val_pct="
            f"{config.val_pct:g}; raise it, or cut the text into smaller documents"
        )
        recorder.event("warning", message=msg)
    if not counts.documents["train"]:
        msg = f"all of {counts.items} documents were chosen for validation; lower data.val_pct"
        recorder.event("warning", message=msg)
    if config.max_tokens is not None and counts.all_tokens < config.max_tokens:
        msg = (
            f"the dataset ended after {counts.all_tokens} tokens, before data.max_tokens="
            f"{config.max_tokens}"
        )
        recorder.event("warning", message=msg)
