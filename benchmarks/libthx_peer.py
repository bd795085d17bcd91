"""libthx as a contender of `benchmarks.train`: run by the Python of its own environment.

    PYTHON -P benchmarks/libthx_peer.py prepare '{"root": "…"}'
    PYTHON -P benchmarks/libthx_peer.py train '{"root": "…", "vocabulary": 512}'

`PYTHONPATH` holds a plug-in of tiktoken that makes the encoding `plain_bytes`: its usual ones are
downloads. Only what its documentation shows is called. Its package has the name of ours: nothing
here may import from this repository, and `-P` keeps this folder out of its path. Where its loop reports
a loss, in a sink of loguru, it is held until the next stretch of steps is asked for.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import ClassVar

from loguru import logger

from theseus.data.datasets import StreamingPretrainingDataset
from theseus.data.tokenize import TokenizeVariableDatasetJob
from theseus.model.models import GPT
from theseus.quick import quick
from theseus.registry import dataset, job
from theseus.training.base import BaseTrainer, BaseTrainerConfig, Sampling

CHANNEL = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

DEFAULTS = {
    "layers": 4,
    "width": 128,
    "heads": 16,
    "block": 128,
    "vocabulary": 512,
    "rope": True,
    "dtype": "float32",
    "accumulation": 2,
    "rows": 4,
    "steps": 10,
}
SPEC = {**DEFAULTS, **json.loads(sys.argv[2])}


@dataset("benchmark")
class Numbers(StreamingPretrainingDataset):
    def __iter__(self):
        draw = random.Random(0)
        for _ in range(2000):
            yield " ".join(str(draw.randrange(1000)) for _ in range(200))


@job("benchmark/tokenize")
class Tokenize(TokenizeVariableDatasetJob):
    DATASET = Numbers


@job("benchmark/train")
class Train(BaseTrainer[BaseTrainerConfig, GPT]):
    MODEL = GPT
    CONFIG = BaseTrainerConfig
    DATASET: ClassVar = [Sampling(Numbers, 1.0, "pmd")]


def prepare() -> None:
    with quick(SPEC["root"]) as q:
        q.build(Tokenize, "tokens")
        q.config.tokenizer.name = "plain_bytes"
        q.config.data.max_tokens = 1_000_000
        q.config.data.val_pct = 0.0
        q.create()()


class Gate:
    """Holds the loop at its own reports."""

    def __init__(self) -> None:
        self.began, self.cpu, self.step = time.perf_counter(), time.process_time(), 0

    def __call__(self, message: object) -> None:
        told = re.search(r"TRAIN \| (\d+)/", str(message))
        if told is None or int(told[1]) % SPEC["steps"]:
            return
        seconds, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu
        steps = int(told[1]) - self.step
        lines = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        rss, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        answer = {"seconds": seconds, "cpu": cpu, "steps": steps, "rss": rss, "peak": peak}
        print(json.dumps(answer), file=CHANNEL, flush=True)
        if not sys.stdin.readline():
            os._exit(0)
        self.step = int(told[1])
        self.began, self.cpu = time.perf_counter(), time.process_time()


def train() -> None:
    logger.remove()
    logger.add(Gate(), level="INFO", format="{message}")
    with quick(SPEC["root"]) as q:
        q.build(Train, f"benchmark-{time.time_ns()}")
        q.config.tokenizer.name = "plain_bytes"
        architecture, training, logging = q.config.architecture, q.config.training, q.config.logging
        architecture.n_layers = SPEC["layers"]
        architecture.n_embd = SPEC["width"]
        architecture.n_head = SPEC["heads"]
        architecture.block_size = SPEC["block"]
        architecture.vocab_size = SPEC["vocabulary"]
        architecture.rope = SPEC["rope"]
        architecture.dtype.activation = SPEC["dtype"]
        training.batch_size = SPEC["accumulation"] * SPEC["rows"]
        training.per_device_batch_size = SPEC["rows"]
        training.tokens = training.batch_size * SPEC["block"] * 10**6
        training.validation = training.evaluate = training.analyze = False
        logging.report_interval = SPEC["steps"]
        logging.checkpoint_interval = logging.validation_interval = 10**9
        logging.remote = False
        q.create()()


if __name__ == "__main__":
    {"prepare": prepare, "train": train}[sys.argv[1]]()
