"""What the model is computed on: asked in one place, so that it can be assumed without looking.

Asking JAX starts its backends, and on a GPU that takes most of the memory. A notebook that only
wants to know the shapes of a model must not do that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jax

_assumed: ContextVar[str | None] = ContextVar("theseus_backend", default=None)


def backend() -> str:
    """Return "cpu", "gpu" or "tpu": what is assumed in this context, or what JAX uses here."""
    return _assumed.get() or jax.default_backend()


@contextmanager
def assuming(name: str) -> Iterator[None]:
    """Let models be traced as for this backend, which need not be here and is not started."""
    token = _assumed.set(name)
    try:
        yield
    finally:
        _assumed.reset(token)
