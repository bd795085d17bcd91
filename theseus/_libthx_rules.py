"""What the keys of libthx 0.4.0 mean here, job by job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

PRETRAIN = "gpt/train/pretrain"
TOKENIZE = "data/tokenize/fineweb"


@dataclass(frozen=True)
class Rules:
    """How the keys of one job are taken over.

    Attributes
    ----------
    same
        Keys that mean here what they mean there → libthx's default.
    changed
        Keys → what becomes of their value: our key, our value; None when there is none.
    fixed
        Keys that are no choice here → the value that is always so, and why others are not.
    told
        Keys without a counterpart → what to know about that.
    added
        What libthx's job did without a key.
    """

    same: Mapping[str, Any]
    changed: Mapping[str, Callable[[Any], tuple[str, Any] | None]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)


def _automatic(key: str) -> Callable[[Any], tuple[str, Any]]:
    """A number for which libthx writes -1 when it is to be chosen."""
    return lambda value: (key, None if value == -1 else value)


def _activation(value: Any) -> tuple[str, Any] | None:
    key = "architecture.dtype.activation"
    return (key, value) if value in ("float32", "bfloat16") else None


_TOKENIZER = {"tokenizer.backend": "tiktoken", "tokenizer.name": "cl100k_base"}
_TOKENIZER_FIXED = {
    "tokenizer.huggingface.use_fast": True,
    "tokenizer.huggingface.use_remote_code": False,
}
RULES: Mapping[str, Rules] = {
    PRETRAIN: Rules(
        same={
            "architecture.n_embd": 2048,
            "architecture.n_layers": 32,
            "architecture.n_head": 16,
            "architecture.block_size": 512,
            "architecture.vocab_size": 100288,
            "architecture.bias": True,
            "architecture.dropout": 0.0,
            "architecture.layer_norm_eps": 1e-5,
            "architecture.rope": True,
            "data.suffix": "",
            "logging.report_interval": 32,
            "logging.checkpoint_interval": 1024,
            "logging.validation_interval": 512,
            "optimization.lr": 3e-4,
            "optimization.warmup_pct": 0.005,
            "optimization.decay_pct": 0.01,
            "optimization.final_lr_frac": 0.01,
            "optimization.weight_decay": 0.1,
            "optimization.beta1": 0.9,
            "optimization.beta2": 0.95,
            "training.tokens": 1_000_000_000,
            "training.batch_size": 512,
            "training.validation": True,
            "training.evaluate": True,
            "training.analyze": True,
            **_TOKENIZER,
        },
        changed={
            "architecture.dtype.activation": _activation,
            "architecture.intermediate_size": _automatic("architecture.intermediate_size"),
            "training.per_device_batch_size": _automatic("training.per_device_batch_size"),
            "training.validation_steps": lambda value: ("training.validation_rows", value),
        },
        fixed={
            "architecture.dtype.param": "float32",
            "architecture.instrumentation.residual": False,
            "architecture.instrumentation.components": False,
            "logging.remote": False,
            **_TOKENIZER_FIXED,
        },
        told={
            "training.warmup_pct": "read by nothing in libthx: optimization.warmup_pct is what counts",
            "training.decay_pct": "read by nothing in libthx: optimization.decay_pct is what counts",
            "data.fineweb.snapshot": f"belongs to the job {TOKENIZE}, which writes the tokens",
            "logging.remote": "metrics stay in the run's own files",
            "architecture.dtype.param": "weights are float32 here",
        },
        # Its job trains on FineWeb, in this precision.
        added={"data.dataset": "fineweb", "architecture.dtype.activation": "bfloat16"},
    ),
    TOKENIZE: Rules(
        same={
            "data.fineweb.snapshot": "CC-MAIN-2022-21",
            "data.seed": 2357,
            "data.suffix": "",
            "data.val_pct": 0.05,
            **_TOKENIZER,
        },
        changed={
            "data.max_samples": _automatic("data.max_samples"),
            "data.max_tokens": _automatic("data.max_tokens"),
        },
        fixed=_TOKENIZER_FIXED,
    ),
}
