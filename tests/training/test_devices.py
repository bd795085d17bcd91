"""The same losses however many devices share the rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
import jax
from theseus.config import load
from theseus.quick import quick

root, rows, values = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
with quick(root) as q:
    q.build("gpt/train/pretrain", f"devices-{jax.device_count()}-{rows}")
    load(q.config, values)
    q.config.training.tokens = 10 * 8 * 32
    q.config.training.per_device_batch_size = rows
    run = q.create()()
print(json.dumps([jax.device_count(), [m["train/loss"] for m in run.metrics()]]))
"""


@pytest.mark.slow
def test_devices_and_micro_batches_do_not_change_the_losses(
    data_root: Path, tmp_path: Path
) -> None:
    from tests.training.conftest import TINY

    (tmp_path / "data").symlink_to(data_root / "data")

    def losses(devices: int, rows: int) -> list[float]:
        flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path), str(rows), json.dumps(TINY)],
            env={**os.environ, "XLA_FLAGS": flags},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        count, found = json.loads(done.stdout.splitlines()[-1])
        assert count == devices
        return list(found)

    one = losses(1, 8)
    assert losses(4, 2) == pytest.approx(one, rel=1e-5)
    assert losses(2, 1) == pytest.approx(one, rel=1e-5)
