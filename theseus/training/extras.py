"""What a trainer may measure besides its loss: evaluations and analyses, given by their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import flax.linen as nn

from theseus.data.tokenizer import Tokenizer
from theseus.training.loss import MicroBatches


@dataclass(frozen=True)
class Measured:
    """What an evaluation or an analysis may look at.

    `validation()` yields batches of held-out rows, each part (R, T), the same at every call.
    """

    model: nn.Module
    params: Any
    tokenizer: Tokenizer
    step: int
    seed: int
    validation: Callable[[], Iterable[MicroBatches]]


class Evaluation(Protocol):
    """Numbers about a model: reported as `eval/<name>` with every validation."""

    def evaluate(self, measured: Measured) -> dict[str, float]:
        """Return name → value."""


class Analysis(Protocol):
    """Facts about a model: kept as JSON in `results/` with every checkpoint."""

    def analyze(self, measured: Measured) -> dict[str, Any]:
        """Return what JSON can hold."""
