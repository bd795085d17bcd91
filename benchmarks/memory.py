"""The memory estimate beside what the compiler says, over a grid of configurations.

python -m benchmarks.memory                     a table
python -m benchmarks.memory --json FILE         and as JSON
python -m benchmarks.memory --quick             a few of the grid

Eight CPU devices stand for eight chips; nothing is allocated, the step is only compiled. Exit
status 1 when an estimate of the state is off by more than 10 %, or of the whole by more than 25 %.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={DEVICES}"
)

from theseus.config import load  # noqa: E402 - the devices are counted when JAX is imported
from theseus.hardware.memory import in_words  # noqa: E402
from theseus.quick import quick  # noqa: E402

STATE_BAR, TOTAL_BAR = 0.10, 0.25

BASE: dict[str, Any] = {
    "architecture.n_layers": 4,
    "architecture.n_embd": 128,
    "architecture.n_head": 8,
    "architecture.vocab_size": 512,
    "architecture.block_size": 128,
    "architecture.dtype.activation": "float32",
    "training.per_device_batch_size": 4,
    "training.remat": "none",
}
SHORT = {
    "L": "architecture.n_layers",
    "D": "architecture.n_embd",
    "H": "architecture.n_head",
    "V": "architecture.vocab_size",
    "T": "architecture.block_size",
    "B": "training.per_device_batch_size",
    "remat": "training.remat",
    "dropout": "architecture.dropout",
    "rope": "architecture.rope",
    "optimizer": "optimization.optimizer",
    "ema": "optimization.ema",
}
# What differs from BASE; A is the micro-batches of a step, `n` the devices.
GRID: list[dict[str, Any]] = [
    {},
    {"A": 2},
    {"L": 12},
    {"T": 512},
    {"B": 16},
    {"D": 512},
    {"V": 50_304},
    {"V": 50_304, "A": 2},
    {"remat": "dots"},
    {"remat": "block"},
    {"L": 12, "D": 256, "T": 256, "B": 8},
    {"L": 12, "D": 256, "T": 256, "B": 8, "remat": "dots"},
    {"L": 12, "D": 256, "T": 256, "B": 8, "remat": "block"},
    {"dropout": 0.1},
    {"rope": True},
    {"ema": 0.999},
    {"optimizer": "muon", "D": 256},
    {"n": 8},
    {"n": 8, "zero": True, "D": 256},
    {"n": 8, "fsdp": True, "D": 256},
    {"n": 8, "fsdp": True, "D": 256, "V": 50_304},
    {"n": 8, "tp": 2, "D": 256},
    {"n": 8, "tp": 8, "D": 256, "V": 50_304},
    {"n": 8, "tp": 2, "zero": True, "D": 256, "A": 2},
    {"n": 8, "tp": 4, "fsdp": True, "D": 256, "remat": "block", "L": 12},
]


def compare(root: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the estimate and the compiler's figures of one configuration, in bytes per device."""
    changes = dict(changes)
    label = " ".join(f"{k}={v}" for k, v in changes.items()) or "base"
    devices, accumulation = changes.pop("n", 1), changes.pop("A", 1)
    policy = {name: changes.pop(name) for name in ("tp", "fsdp", "zero") if name in changes}
    with quick(root) as q:
        q.build("gpt/train/pretrain", "memory").shard(**policy)
        load(q.config, {**BASE, **{SHORT[k]: v for k, v in changes.items()}})
        rows = q.config.training.per_device_batch_size * devices // policy.get("tp", 1)
        q.config.training.batch_size = rows * accumulation
        trainer = q.create()
    found = trainer.estimate(devices, backend="cpu").verify()
    return {
        "configuration": label,
        "parts": found.estimate.parts,
        "state": [found.estimate.state, found.compiled.state, found.state_error],
        "total": [found.estimate.total, found.compiled.total, found.total_error],
    }


def row(found: dict[str, Any]) -> str:
    """Return one line of the table."""
    cells = [found["configuration"]]
    for what in ("state", "total"):
        mine, theirs, error = found[what]
        cells += [in_words(mine), in_words(theirs), f"{error:+.0%}"]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description="The memory estimate against the compiler.")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--quick", action="store_true", help="every fourth configuration")
    options = parser.parse_args()
    print("| configuration | state: estimate | compiler | | whole: estimate | compiler | |")
    print("|---|---|---|---|---|---|---|")
    results = []
    with tempfile.TemporaryDirectory() as root:
        for changes in GRID[:: 4 if options.quick else 1]:
            results.append(compare(Path(root), changes))
            print(row(results[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    off = [
        found["configuration"]
        for found in results
        if abs(found["state"][2]) > STATE_BAR or abs(found["total"][2]) > TOTAL_BAR
    ]
    print(f"\n{len(results)} configurations; beyond the bars: {', '.join(off) or 'none'}")
    return bool(off)


if __name__ == "__main__":
    sys.exit(main())
