"""What a `%%theseus` cell shows below itself: the one place where its parts are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theseus.combobulation import Combobulation
    from theseus.quick import QuickJob


def show(recipe: QuickJob, spec: Combobulation | None) -> None:
    """Show a recipe and what it needs: the form, then the hardware, then where it can go.

    Each part displays itself, with a static form beside it; where no front end answers (nbclient,
    papermill, a terminal) that is text.

    Parameters
    ----------
    spec
        What the cell's first line asks for, or None when it asks for no hardware.
    """
    for part in (recipe, spec):
        if part is not None:
            display(part)


def display(thing: object) -> None:
    """Show something in the cell that is being run."""
    from IPython import display as ipython

    plainly: Any = ipython.display  # IPython leaves it without types
    plainly(thing)
