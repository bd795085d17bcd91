"""The card of a run in a notebook: a live view, and beside it a form that stays in the file.

%theseus watch train-gpt
RunCard(run)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import traitlets

from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.showing import Source, find, source_of
from theseus.notebook import front
from theseus.notebook.desk import Card, Desk
from theseus.notebook.record import Record
from theseus.notebook.widget import Widget, live
from theseus.runs import Run
from theseus.runs.card import card

STYLES = ("chart", "log", "card")


class RunCard(Widget):
    """A run: its state, curves and log as they grow, and what can be done with it.

    Parameters
    ----------
    run
        A run that was submitted, or one in a folder here.
    compared
        Runs whose curves are drawn beside.
    """

    _esm = front.esm("run_card")
    _css = front.css(*STYLES)

    key = traitlets.Unicode().tag(sync=True)
    card = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        run: DispatchedRun | Run | Source,
        *,
        compared: Sequence[Source] = (),
        record: Record | None = None,
    ) -> None:
        source = source_of(run) if isinstance(run, DispatchedRun | Run) else run
        self.record = record or Record()
        self.desk = Desk(source, CardFront(self), self.record, tuple(compared))
        super().__init__(key=uuid4().hex, card=self.desk.card())

    def text(self) -> str:
        """Return the facts and how to follow the log."""
        source = self.desk.source
        return f"{source.summary().text()}\nlog     theseus logs {source.id} -f"

    def html(self) -> str:
        """Return the card without its curve."""
        return card(self.desk.source.summary())

    def receive(self, message: Mapping[str, Any]) -> None:
        """Hand a message of a view to the desk."""
        self.desk.receive(message)

    def close(self) -> None:
        """End the threads, and the widget."""
        self.desk.close()
        super().close()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        shown: Any = display  # IPython leaves it without types
        if live():
            # Beside the durable output, this one needs no form of its own.
            data, metadata = self._repr_mimebundle_()
            data |= {"text/plain": f"the run {self.desk.source.id}, live", "text/html": ""}
            shown(data, metadata=metadata, raw=True)
        else:
            self.desk.source.once()
        self.desk.record(update=False)


class CardFront:
    """A widget with the trait `card` as what a desk sends to."""

    def __init__(self, widget: Any) -> None:
        self._widget = widget

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to every view."""
        self._widget.tell(message)

    def show(self, card: Card) -> None:
        """Show the facts."""
        self._widget.card = card


def watch(names: Sequence[str]) -> list[RunCard]:
    """Show a card for each of several runs, each with the curves of the others beside its own."""
    from IPython.display import display

    shown: Any = display
    found = [find(word) for word in names or ["latest"]]
    cards = []
    for source in found:
        one = RunCard(source, compared=[other for other in found if other.id != source.id])
        cards.append(one)
        shown(one)
    return cards
