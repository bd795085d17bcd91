"""A model whose sizes can be counted in the head, and one that fills a GPU."""

from __future__ import annotations

from dataclasses import replace

from theseus.hardware.fitting import Workload
from theseus.hardware.memory import ArrayShape, StepSizes

# 6 heads, a width of 96, an MLP of 384, 1,000 tokens; 2 layers.
PARAMETERS = (
    ArrayShape((2, 96, 3, 6, 16), ("layers", "embed", None, "heads", "head_size")),
    ArrayShape((2, 96, 384), ("layers", "embed", "mlp")),
    ArrayShape((1000, 96), ("vocab", "embed")),
)
SIZES = StepSizes(
    rows=1, length=64, accumulation=1, n_layers=2, n_embd=96, heads=6, hidden=384, vocab_size=1000
)


def one_chunk(**_: object) -> int:
    """Return that the logits are not divided."""
    return 1


WORK = Workload(
    parameters=PARAMETERS,
    optimizer=PARAMETERS * 2,
    sizes=SIZES,
    batch_size=48,
    most_rows=8,
    bfloat16={"gpu": True, "tpu": True, "cpu": False},
    separate_documents=False,
    chunks=one_chunk,
)

# 8 layers of width 8,192 with an MLP of 32,768 and a vocabulary of 32,768: 2 × 8 × 8,192 × 32,768 +
# 8,192 × 32,768 = 4.56 billion parameters, 17 GiB.
_BIG = (
    ArrayShape((8, 8192, 32768), ("layers", "embed", "mlp")),
    ArrayShape((8, 32768, 8192), ("layers", "mlp", "embed")),
    ArrayShape((32768, 8192), ("vocab", "embed")),
)
BIG = replace(
    WORK,
    parameters=_BIG,
    optimizer=_BIG * 2,
    sizes=StepSizes(
        rows=1,
        length=2048,
        accumulation=1,
        n_layers=8,
        n_embd=8192,
        heads=64,
        hidden=32768,
        vocab_size=32768,
    ),
    batch_size=64,
)
