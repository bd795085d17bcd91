"""Kill a training run at random moments, half of them during a save, and see what comes of it.

python -m benchmarks.crash                      50 kills
python -m benchmarks.crash --kills 12 --json FILE

The run is started again after each kill. Every start must find a checkpoint that it can go on from;
in the end the losses and every array of the state must be those of a run that nobody killed, bit
for bit. Exit status 1 when they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("THESEUS_PROGRESS", "none")

import jax

from theseus.config import load
from theseus.quick import quick
from theseus.runs import list_runs

VALUES: dict[str, Any] = {
    "architecture": {
        "n_embd": 64,
        "n_layers": 2,
        "n_head": 2,
        "block_size": 32,
        "vocab_size": 257,
        "dropout": 0.1,
    },
    "training": {"batch_size": 8, "per_device_batch_size": 4, "validation": False},
    "logging": {"report_interval": 1, "checkpoint_interval": 5},
    "data": {"dataset": "text"},
}


def made(root: Path, name: str, steps: int) -> Any:
    with quick(root) as q:
        q.build("gpt/train/pretrain", name)
        load(q.config, VALUES)
        q.config.training.tokens = steps * 8 * 32
        return q.create()


def write_tokens(root: Path) -> None:
    texts = root / "texts"
    texts.mkdir()
    for number in range(60):
        words = " ".join(str(number * k) for k in range(40))
        (texts / f"{number:02}.txt").write_text(f"document {number} counts: {words}")
    with quick(root) as q:
        q.build("data/tokenize/text", "tokens")
        q.config.data.text.files = [f"{texts}/*.txt"]
        q.config.data.val_pct = 0.1
        q.create()()


def is_saving(root: Path, since: float) -> bool:
    """Tell whether a save that began after `since` is under way; killed runs leave older ones."""
    return newer(root, "checkpoints/.partial-*/state*", since)


def has_step(root: Path, since: float) -> bool:
    """Tell whether a step was reported after `since`."""
    return newer(root, "metrics.jsonl", since)


def newer(root: Path, pattern: str, since: float) -> bool:
    for path in root.glob(f"runs/*/*/victim-*/{pattern}"):
        with suppress(FileNotFoundError):
            found = path.stat()
            if found.st_size and found.st_mtime > since:
                return True
    return False


def kill_once(root: Path, steps: int, in_save: bool, chance: random.Random) -> dict[str, Any]:
    """Start the run, kill it, and tell when that was."""
    began = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.crash", "--victim", str(root), "--steps", str(steps)],
        stderr=subprocess.PIPE,
        text=True,
    )
    wanted = is_saving if in_save else has_step
    while process.poll() is None and not wanted(root, began):
        time.sleep(0.002)
    if not in_save:
        time.sleep(chance.uniform(0, 1))
    saving = is_saving(root, began)
    alive = process.poll() is None
    process.kill()
    _, errors = process.communicate()
    return {"alive": alive, "saving": saving, "error": "" if alive else errors.strip()[-500:]}


def equal(left: Any, right: Any) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), left, right))


def losses(run: Any) -> list[tuple[int, float]]:
    return [(m["step"], m["train/loss"]) for m in run.metrics() if "train/loss" in m]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a training run and go on, again and again.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=1000, help="steps of the run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--victim", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.victim:
        made(options.victim, "victim", options.steps)()
        return 0
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tokens(root)
        whole = made(root, "whole", options.steps)
        straight = whole()
        kills = []
        for number in range(options.kills):
            kills.append(kill_once(root, options.steps, number % 2 == 0, chance))
            if not kills[-1]["alive"]:
                print(f"kill {number + 1}: the run had ended: {kills[-1]['error']}")
        last = made(root, "victim", options.steps)
        run = last()
        (victim,) = [found for found in list_runs(root) if found.name == "victim"]
        result = {
            "kills": sum(kill["alive"] for kill in kills),
            "during a save": sum(kill["alive"] and kill["saving"] for kill in kills),
            "failed starts": sum(bool(kill["error"]) for kill in kills),
            "attempts": victim.status()["attempt"],
            "losses equal": losses(run) == losses(straight),
            "state equal": equal(last.state, whole.state),
        }
    for name, value in result.items():
        print(f"{name:16} {value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return not (result["losses equal"] and result["state equal"] and not result["failed starts"])


if __name__ == "__main__":
    sys.exit(main())
