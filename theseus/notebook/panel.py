"""What a `%%theseus` cell shows below itself: the one place where its parts are put together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theseus.combobulation import Combobulation
    from theseus.quick import QuickJob


def show(recipe: QuickJob, spec: Combobulation) -> None:
    """Show a recipe and what it needs: the form, then the hardware, then where it can go.

    Each part displays itself, with a static form beside it; where no front end answers (nbclient,
    papermill, a terminal) that is text, and of the hardware what was asked for.

    Parameters
    ----------
    spec
        The recipe with the hardware that the cell's first line asks for.
    """
    from theseus.hardware.resources import Resources
    from theseus.notebook.audience import live
    from theseus.notebook.hardware import CombobulationWidget
    from theseus.notebook.submit import SubmitPanel

    display(recipe)
    hardware = CombobulationWidget(spec, recipe=recipe)
    if live() or spec.resources != Resources():
        display(hardware)

    def asked() -> Combobulation:
        # What was typed since counts, in the form as in the hardware.
        return replace(recipe.spec(), resources=hardware.value.resources)

    where = SubmitPanel(asked, root=recipe.root)
    hardware.observe(lambda _: where.refresh(), "value")
    display(where)


def display(thing: object) -> None:
    """Show something in the cell that is being run."""
    from IPython import display as ipython

    plainly: Any = ipython.display  # IPython leaves it without types
    plainly(thing)
