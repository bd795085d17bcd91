"""A root folder with tokens, and trainers small enough to run in a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from theseus.quick import quick

TINY = {
    "architecture": {
        "n_embd": 32,
        "n_layers": 2,
        "n_head": 2,
        "block_size": 32,
        "vocab_size": 257,
        "dtype": {"activation": "float32"},
    },
    "training": {
        "batch_size": 8,
        "per_device_batch_size": 4,
        "tokens": 40 * 8 * 32,
        "validation": False,
    },
    "optimization": {"lr": 3e-3},
    "logging": {"report_interval": 1, "checkpoint_interval": 20},
    "data": {"dataset": "text"},
}


@pytest.fixture(autouse=True)
def _no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test here show how its runs go."""
    monkeypatch.setenv("THESEUS_PROGRESS", "none")


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose dataset `text` is 60 short documents, a tenth of them held out."""
    root = tmp_path_factory.mktemp("root")
    texts = root / "texts"
    texts.mkdir()
    for number in range(60):
        line = f"document {number} counts: " + " ".join(str(number * k) for k in range(40))
        (texts / f"{number:02}.txt").write_text(line)
    with quick(root) as q:
        q.build("data/tokenize/text", "tokens")
        q.config.data.text.files = [f"{texts}/*.txt"]
        q.config.data.val_pct = 0.1
        q.create()()
    return root


@pytest.fixture
def trainer(data_root: Path, tmp_path: Path) -> Callable[..., Any]:
    """Return a maker of trainers in a root of their own that shares the tokens."""
    from theseus.config import load

    (tmp_path / "data").symlink_to(data_root / "data")

    def make(job: Any = "gpt/train/pretrain", name: str = "tiny", **changes: Any) -> Any:
        with quick(tmp_path) as q:
            q.build(job, name)
            values = {k: v for k, v in TINY.items() if isinstance(job, str) or k != "data"}
            load(q.config, values)
            load(q.config, {key.replace("__", "."): value for key, value in changes.items()})
            return q.create()

    return make
