"""Perplexity of held-out rows."""

from __future__ import annotations

import math
from functools import partial

import jax

from theseus.registry import evaluation
from theseus.training.extras import Measured
from theseus.training.loss import batch_totals


@evaluation("perplexity")
class Perplexity:
    """The exponential of the mean loss per valid target of the validation rows."""

    def evaluate(self, measured: Measured) -> dict[str, float]:
        """Return `perplexity`; infinite when it is beyond a float."""
        totals = jax.jit(partial(batch_totals, measured.model))
        sums = [totals(measured.params, batch) for batch in measured.validation()]
        loss = sum(float(total) for total, _ in sums)
        count = sum(float(number) for _, number in sums)
        mean = loss / max(count, 1)
        return {"perplexity": math.exp(mean) if mean < 700 else math.inf}
