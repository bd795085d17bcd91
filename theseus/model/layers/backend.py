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


def has_flash(head_size: int) -> bool:
    """Tell whether cuDNN's flash attention serves bfloat16 heads of this size, forwards and back.

    It needs an NVIDIA GPU of compute capability 8.0 (A100) or newer, and heads of a multiple of 8
    up to 128; JAX refuses the others rather than going another way. An assumed GPU is a new one.
    """
    if backend() != "gpu" or head_size % 8 or head_size > 128:
        return False
    if _assumed.get():
        return True
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))  # "8.0"; AMD: "gfx90a"
    major = capability.partition(".")[0]
    return major.isdigit() and int(major) >= 8


@contextmanager
def assuming(name: str) -> Iterator[None]:
    """Let models be traced as for this backend, which need not be here and is not started."""
    token = _assumed.set(name)
    try:
        yield
    finally:
        _assumed.reset(token)
