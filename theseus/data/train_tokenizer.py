"""The job that trains a byte-pair tokenizer on a dataset."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from theseus import registry
from theseus.config import configure, field
from theseus.data._files import only_writer, path_safe, read_json, sync_folder, write_json
from theseus.data._settings import differences, settings_of
from theseus.data.datasets.base import (
    Dataset,
    PretrainingDataset,
    StreamingPretrainingDataset,
)
from theseus.data.tokenizer import END, HuggingFaceTokenizer
from theseus.errors import UserError, not_installed
from theseus.job import Job, Recorder, StopRequested

VERSION = 1
_REPORT_EVERY = 2.0  # seconds


@dataclass
class TrainTokenizerConfig:
    """What to train on, and how many tokens to find."""

    dataset: str = field(
        "data/tokenizer/dataset", default="stdlib", help="key of the dataset to learn from"
    )
    vocab_size: int = field(
        "data/tokenizer/vocab_size",
        default=4096,
        ge=257,
        help="tokens in all: 256 bytes, the end of a document, and pairs of what is frequent",
    )
    name: str = field(
        "data/tokenizer/name",
        default="",
        help="what tokenizer.name will call it; empty: dataset and size, such as stdlib-4096",
    )
    max_samples: int | None = field(
        "data/tokenizer/max_samples", default=None, ge=1, help="read at most so many documents"
    )


class TrainTokenizerJob(Job):
    """Learn a byte-level BPE and keep it as `tokenizers/<name>/tokenizer.json` under the root.

    Any text dataset that comes with theseus is chosen by `data.tokenizer.dataset`. For one with
    settings of its own, write `class Mine(TrainTokenizerJob): DATASET = MyDataset`.
    """

    DATASET: ClassVar[type[Dataset[str]] | None] = None
    CONFIG = TrainTokenizerConfig

    @classmethod
    def configs(cls) -> tuple[type, ...]:
        """Return the own keys, and those of the dataset or of all that are built in."""
        datasets = [cls.DATASET] if cls.DATASET else _built_in()
        return (
            TrainTokenizerConfig,
            *(dataset.CONFIG for dataset in datasets if dataset.CONFIG is not None),
        )

    def check(self) -> None:
        """Refuse an unknown dataset and one that gives no text."""
        self._dataset().check()

    def run(self, recorder: Recorder) -> None:
        """Train, unless the same tokenizer is there already."""
        args = configure(TrainTokenizerConfig)
        cls = self._dataset()
        key = registry.key_of("dataset", cls) or cls.__qualname__
        name = args.name or f"{key}-{args.vocab_size}"
        target = self.root / "tokenizers" / path_safe(name)
        dataset = cls()
        settings = settings_of(TrainTokenizerConfig, cls.CONFIG)
        settings |= {"data.tokenizer.dataset": key, "data.tokenizer.name": name}
        settings |= {f"source.{fact}": value for fact, value in dataset.source().items()}
        with only_writer(target.with_name(f".{target.name}.lock"), f"the tokenizer '{name}'"):
            if target.exists():
                _refuse_another(target, name, settings)
                recorder.event("unchanged", message=f"the tokenizer '{name}' was trained before")
                return
            self._train(recorder, dataset, args, target, settings)

    def _train(
        self,
        recorder: Recorder,
        dataset: Dataset[str],
        args: TrainTokenizerConfig,
        target: Path,
        settings: dict[str, Any],
    ) -> None:
        try:
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        except ImportError:
            raise not_installed("training a tokenizer", "tokenizers") from None
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=args.vocab_size,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        feed = _Feed(recorder, dataset, args.max_samples)
        tokenizer.train_from_iterator(iter(feed), trainer)
        if not feed.documents:
            msg = f"the dataset '{settings['data.tokenizer.dataset']}' gave no document"
            raise UserError(msg)
        unfinished = target.with_name(f".{target.name}.partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        path = unfinished / "tokenizer.json"
        tokenizer.save(str(path))
        with path.open("rb") as file:
            os.fsync(file.fileno())
        trained = HuggingFaceTokenizer(path, settings["data.tokenizer.name"])
        facts = {"documents": feed.documents, "characters": feed.characters}
        write_json(
            unfinished / "meta.json",
            {"v": VERSION, "settings": settings, "tokenizer": trained.identity(), **facts},
        )
        unfinished.rename(target)
        sync_folder(target.parent)
        if trained.vocab_size < args.vocab_size:
            recorder.event(
                "warning",
                message=f"the text holds only {trained.vocab_size} tokens that occur twice, not "
                f"data.tokenizer.vocab_size={args.vocab_size}",
            )
        recorder.report(
            feed.documents,
            {"data/documents": feed.documents, "data/vocab_size": trained.vocab_size},
        )

    def _dataset(self) -> type[Dataset[str]]:
        if self.DATASET is not None:
            cls: type = self.DATASET
        else:
            cls = registry.find("dataset", configure(TrainTokenizerConfig).dataset)
        if not issubclass(cls, PretrainingDataset | StreamingPretrainingDataset):
            msg = f"{cls.__qualname__} gives no plain text, so no tokenizer can be trained on it"
            raise UserError(msg)
        if cls.CONFIG is not None and cls.CONFIG not in self.configs():
            msg = (
                f"{cls.__qualname__} has settings of its own, which this job does not know; write\n"
                f"  class TrainMyTokenizer(TrainTokenizerJob):\n      DATASET = {cls.__qualname__}"
                "\nand run that"
            )
            raise UserError(msg)
        return cls


class _Feed:
    """The documents on their way to the trainer; counts them and hears the request to stop."""

    def __init__(self, recorder: Recorder, dataset: Dataset[str], most: int | None) -> None:
        self._recorder = recorder
        self._dataset = dataset
        self._most = most
        self.documents = 0
        self.characters = 0

    def __iter__(self) -> Iterator[str]:
        told = 0.0
        for text in islice(self._dataset.starting_at(0), self._most):
            if self._recorder.stopping:
                msg = (
                    f"training the tokenizer was stopped ({self._recorder.stopping}) after reading "
                    f"{self.documents} documents; nothing was kept, run it again to start over"
                )
                raise StopRequested(msg)
            self.documents += 1
            self.characters += len(text)
            if time.monotonic() - told > _REPORT_EVERY:
                told = time.monotonic()
                self._recorder.progress(
                    self.documents, self._most, unit="documents", characters=self.characters
                )
            yield text
        self._recorder.progress(self.documents, self.documents, unit="documents")


def _built_in() -> list[type[Dataset[str]]]:
    loaded = [
        entry.load() for entry in registry.entries("dataset") if isinstance(entry.target, str)
    ]
    texts = (PretrainingDataset, StreamingPretrainingDataset)
    return [cls for cls in loaded if issubclass(cls, texts)]


def _refuse_another(target: Path, name: str, settings: dict[str, Any]) -> None:
    meta = target / "meta.json"
    found = read_json(meta, VERSION)["settings"] if meta.is_file() else {}
    changed = differences(found, settings)
    if changed:
        told = "".join(f"\n  {line}" for line in changed)
        msg = (
            f"{target} holds another tokenizer '{name}':{told}\n"
            "set data.tokenizer.name to another name, or remove that folder"
        )
        raise UserError(msg)
