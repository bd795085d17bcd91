"""How much arithmetic training takes, by the convention that published figures use."""

from __future__ import annotations

import math
from collections.abc import Iterable

from theseus.hardware.sharding import Axes

CONVENTION = "6N + 12LDT per token, attention counted in full, recomputation not (PaLM, App. B)"


def matrix_parameters(arrays: Iterable[tuple[str, tuple[int, ...], Axes]]) -> int:
    """Return N: the parameters that a token is multiplied with, given (name, shape, axes) of each.

    Biases and norms are not, and neither are position embeddings, which are looked up. A token
    embedding is: it is the output matrix too.
    """
    total = 0
    for name, shape, axes in arrays:
        named = [axis for axis in axes if axis not in {None, "layers"}]
        if len(named) >= 2 and not name.endswith("bias"):
            total += math.prod(shape)
    return total


def flops_per_token(parameters: int, n_layers: int, n_embd: int, block_size: int) -> float:
    """Return the FLOPs of training on one token: 6N + 12LDT.

    2N for the products of the forward pass and 4N for those of the backward pass, and the same
    for attention's two (T, T) products of width D (Chowdhery et al., arXiv:2204.02311, App. B).

    Parameters
    ----------
    parameters
        N, as `matrix_parameters` counts.
    n_layers, n_embd, block_size
        L, D (heads × head size) and T.
    """
    return 6.0 * parameters + 12.0 * n_layers * n_embd * block_size
