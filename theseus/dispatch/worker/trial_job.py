"""The tiny job of `theseus hosts test`: the environment computes, and results come back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from theseus.config import configure, field
from theseus.job import Job, Recorder

RESULT = "trial.json"


@dataclass
class TrialConfig:
    """What the tiny job is asked for."""

    size: int = field("trial/size", default=64, help="rows of the matrix", ge=1)


class Trial(Job):
    """Multiply a small matrix on the devices that JAX sees, and write down how that went."""

    CONFIG = TrialConfig

    def run(self, recorder: Recorder) -> None:
        """Do it."""
        import jax
        import jax.numpy as jnp

        size = configure(TrialConfig).size
        total = float((jnp.ones((size, size)) @ jnp.ones((size, size))).sum())
        devices = [device.device_kind for device in jax.local_devices()]
        print("the tiny job ran on", ", ".join(devices))  # noqa: T201 - its log is what is tried
        recorder.report(1, {"trial/sum": total})
        text = json.dumps({"sum": total, "devices": devices})
        (recorder.folder / "results" / RESULT).write_text(text)
