"""The two tutorial chapters, line by line as their readers will type them.

`tests/seeds/` holds the chapters as text. Their code is found by the first and the last line of
each block and run as it stands, but for paths, the imports that a chapter leaves out, and the
indentation that one of them lost; the hub's dataset is a folder of the same name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from theseus.combobulation import Combobulation

SEEDS = Path(__file__).parent / "seeds"
ROOT = "/Users/houjun/theseus"

OWN = [
    ("from dataclasses import dataclass", "            yield i"),
    ("from theseus.data.tokenize import TokenizeVariableDatasetJob", "    DATASET = MyFineWeb"),
    ("from theseus.quick import quick", "    job()"),
    ("from theseus.config import field", '    #         ^ "use MyFineWeb, 50% of the time'),
    ('with quick("/Users/houjun/theseus") as q:', "    trainer()"),
]
REMOTE = [
    ("from omegaconf import OmegaConf", "q.config.architecture.n_embd = 128", 1),
    ("from omegaconf import OmegaConf", "print(q.spec())", 2),
    ('with quick("/Users/houjun/theseus") as q:', "print(c)", 3),
    ("from omegaconf import OmegaConf", 'OmegaConf.save(c.serialize(), "out.yaml")', 3),
]


def blocks(lines: list[str], bounds: list[tuple[str, str]]) -> list[str]:
    """Return the blocks in their order; each begins after the one before it has ended."""
    found, at = [], 0
    for first, last in bounds:
        start = next(n for n in range(at, len(lines)) if lines[n].startswith(first))
        end = next(n for n in range(start, len(lines)) if lines[n].startswith(last))
        found.append("\n".join(lines[start : end + 1]))
        at = end + 1
    return found


def reindented(block: str) -> str:
    """Put the lines after `with …:` back into its block."""
    lines, inside = [], False
    for line in block.splitlines():
        lines.append(f"    {line}" if inside else line)
        inside = inside or line.startswith("with ")
    return "\n".join(lines)


def remote_blocks() -> list[str]:
    """Return the blocks of the second chapter; some first lines stand there more than once."""
    lines = (SEEDS / "remote-training.txt").read_text().splitlines()
    found = []
    for first, last, occurrence in REMOTE:
        starts = [n for n, line in enumerate(lines) if line == first]
        start = starts[min(occurrence, len(starts)) - 1]
        end = next(n for n in range(start, len(lines)) if lines[n].startswith(last))
        found.append(reindented("\n".join(lines[start : end + 1])))
    return found


def run(code: str, folder: Path) -> str:
    """Run a script as a person would, in `folder`, and return what it printed."""
    script = folder / "my_job_script.py"
    script.write_text(code.replace(ROOT, str(folder / "root")))
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        # Optimised, unlike in other tests: these models are large enough for it to pay.
        env={**os.environ, "THESEUS_PROGRESS": "none", "XLA_FLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A folder in which `HuggingFaceFW/fineweb` is a small dataset with the tutorial's snapshot."""
    repository = tmp_path / "HuggingFaceFW" / "fineweb"
    repository.mkdir(parents=True)
    texts = [
        f"page {n}: " + "the quick brown fox jumps over the lazy dog. " * 20 for n in range(90)
    ]
    pq.write_table(pa.table({"text": texts}), repository / "pages.parquet")
    (repository / "README.md").write_text(
        "---\nconfigs:\n- config_name: CC-MAIN-2022-21\n  data_files: pages.parquet\n---\n"
    )
    return tmp_path


@pytest.mark.slow
def test_making_it_your_own_runs_from_a_script(hub: Path) -> None:
    lines = (SEEDS / "making-it-your-own.txt").read_text().splitlines()
    dataset, tokenizer, tokenizing, model, training = blocks(lines, OWN)
    left_out = (
        "import jax\nfrom theseus.registry import job\nfrom theseus.data.datasets import Sampling\n"
    )
    # FineWeb itself is the other half of the mixture: the chapter before has tokenized it.
    fineweb = textwrap.dedent(
        f"""
        with quick("{ROOT}") as q:
            q.build("data/tokenize/fineweb", "fineweb")
            q.create()()
        """
    )
    chapter = (left_out, dataset, tokenizer, tokenizing, fineweb, model, training)
    run("\n".join(chapter), hub)
    (trained,) = (hub / "root" / "runs").glob("general/default/train-scaled-gpt-*")
    metrics = [line for line in (trained / "metrics.jsonl").read_text().splitlines() if line]
    assert len(metrics) == 32  # 32,768 tokens, 8 rows of 128, a report after each step
    assert sorted(p.name for p in (trained / "checkpoints").glob("[0-9]*")) == ["24", "32"]


@pytest.mark.slow
def test_a_run_is_called_what_its_user_called_it(tmp_path: Path) -> None:
    """The chapter's run named `dont matter what's here now`, made small, trains under that name."""
    tokens = textwrap.dedent(
        f"""
        from theseus.quick import quick
        with quick("{ROOT}") as q:
            q.build("data/tokenize/stdlib", "tokens")
            q.config.data.max_tokens = 20_000
            q.create()()
        """
    )
    smaller = """
    q.config.architecture.n_layers = 1
    q.config.architecture.block_size = 32
    q.config.architecture.vocab_size = 257
    q.config.training.batch_size = 4
    q.config.training.tokens = 512
    q.config.training.validation = False
    print(q.create()())
"""
    printed = run(tokens + remote_blocks()[0] + smaller, tmp_path)
    assert "dont matter what's here now" in printed
    (record,) = (tmp_path / "root" / "runs").glob("general/default/dont*/run.json")
    assert json.loads(record.read_text())["name"] == "dont matter what's here now"
    assert "'" not in record.parent.name
    assert " " not in record.parent.name


def test_remote_training_up_to_the_file_runs_from_a_script(tmp_path: Path) -> None:
    quick_import = "from theseus.quick import quick\n"
    for block in remote_blocks():
        printed = run(quick_import + block, tmp_path)
    spec = Combobulation.deserialize(OmegaConf.load(tmp_path / "out.yaml"))
    assert spec.identity.name == "train-gpt"
    printed = run(quick_import + remote_blocks()[1], tmp_path)
    assert "dont matter what's here now" in printed
    printed = run(quick_import + remote_blocks()[2], tmp_path)
    assert "h100" in printed
    assert "tp 2" in printed or "tp=2" in printed
