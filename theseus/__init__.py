"""Train JAX language models from a notebook cell, here or on any machine you can reach.

`%load_ext theseus` adds the magics. Everything else is imported when it is first used:
`from theseus.quick import quick, init`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from theseus.combobulation import Combobulation
    from theseus.quick import QuickJob, init

__version__ = "0.1.0"
__all__ = [
    "Combobulation",
    "QuickJob",
    "__version__",
    "init",
    "load_ipython_extension",
    "unload_ipython_extension",
]

# `quick` is not among them: the module `theseus.quick` has that name.
_LAZY = {
    "Combobulation": "theseus.combobulation",
    "QuickJob": "theseus.quick",
    "init": "theseus.quick",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        msg = f"module 'theseus' has no attribute '{name}'"
        raise AttributeError(msg)
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY} - {"annotations", "TYPE_CHECKING", "Any"})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add `%theseus` and `%%theseus` to a notebook: what `%load_ext theseus` calls."""
    from theseus.notebook.magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the magics away again: what `%unload_ext theseus` calls."""
    from theseus.notebook.magics import unload

    unload(shell)
