"""The configuration that every trainer has."""

from __future__ import annotations

from dataclasses import dataclass

from theseus.config import field


@dataclass(frozen=True)
class BaseTrainerConfig:
    """How much is trained on, in what portions, and how often something is written down."""

    block_size: int = field("architecture/block_size", default=1024, ge=1)
    tokens: int = field(
        "training/tokens", default=1_000_000_000, ge=0, log=True, help="tokens to train on, in all"
    )
    batch_size: int = field(
        "training/batch_size",
        default=512,
        ge=1,
        log=True,
        help="rows per optimizer step, over all devices",
    )
    per_device_batch_size: int | None = field(
        "training/per_device_batch_size",
        default=None,
        ge=1,
        help="rows per device and micro-batch; unset: the most that divides, up to 8",
    )
    seed: int = field(
        "training/seed", default=0, ge=0, help="decides weights, order of the data and dropout"
    )
    start_from: str | None = field(
        "training/start_from",
        default=None,
        help="folder of a checkpoint whose state is the first one, in place of random weights",
    )
    start_partial: bool = field(
        "training/start_partial",
        default=False,
        help="whether that checkpoint may lack what this model has, or have more",
    )
    ema: float | None = field(
        "optimization/ema",
        default=None,
        ge=0.0,
        le=1.0,
        help="memory of a running average of the weights, such as 0.999; unset: none is kept",
    )
    validation: bool = field(
        "training/validation", default=True, help="whether to measure the loss of held-out rows"
    )
    validation_rows: int = field(
        "training/validation_rows",
        default=2048,
        ge=1,
        log=True,
        help="held-out rows per validation, at most",
    )
    evaluate: bool = field(
        "training/evaluate", default=True, help="whether to run the trainer's evaluations"
    )
    analyze: bool = field(
        "training/analyze", default=True, help="whether to run the trainer's analyses"
    )
    report_interval: int = field(
        "logging/report_interval", default=10, ge=1, help="steps between two lines of metrics"
    )
    validation_interval: int = field(
        "logging/validation_interval", default=512, ge=1, help="steps between two validations"
    )
    checkpoint_interval: int = field(
        "logging/checkpoint_interval", default=1024, ge=1, help="steps between two checkpoints"
    )
    keep_last: int = field(
        "logging/keep_last", default=2, ge=1, help="newest checkpoints that are kept"
    )
    keep_every: int | None = field(
        "logging/keep_every",
        default=None,
        ge=1,
        help="steps: a checkpoint at a multiple of it is kept for good; unset: none is",
    )
    profile_start: int | None = field(
        "logging/profile_start",
        default=None,
        ge=1,
        help="first step of a recorded profile, kept in results/profile; unset: none",
    )
    profile_steps: int = field(
        "logging/profile_steps", default=3, ge=1, help="steps that the profile covers"
    )
    suffix: str = field(
        "data/suffix", default="", help="which of several token files of one dataset"
    )
    separate_documents: bool = field(
        "data/separate_documents",
        default=False,
        help="keep packed documents from attending to each other",
    )
