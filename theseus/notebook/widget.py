"""What every widget here has: a static form beside the live one, and one way to talk.

The live view lasts as long as its kernel; a saved notebook, nbconvert and a code host show the
HTML and the text that lie beside it in the same output. Where no front end answers, nothing is
opened at all and the text is all there is.
"""

from __future__ import annotations

import threading
import traceback
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from typing import Any, TypedDict

import anywidget

from theseus.errors import UserError
from theseus.notebook.audience import WIDGETS, live

__all__ = ["WIDGETS", "Problem", "Widget", "live"]


class Problem(TypedDict):
    """What a widget is told when it asked for something that cannot be done."""

    type: str
    message: str
    details: str | None


class _WidgetClass(ABCMeta, type(anywidget.AnyWidget)):  # type: ignore[misc] # untyped bases
    """A class of widgets that says what it still lacks."""


class Widget(anywidget.AnyWidget, metaclass=_WidgetClass):
    """A widget with a static form: give it `_esm`, `_css`, `text`, `html` and `receive`.

    Attributes
    ----------
    lock
        Held while a message is worked on. Messages may come on any thread (ipykernel's subshells),
        and so may changes; whoever changes the widget's state takes it.
    """

    def __init__(self, **traits: Any) -> None:
        self.lock = threading.RLock()
        super().__init__(**traits)
        self.on_msg(self._on_message)

    @abstractmethod
    def text(self) -> str:
        """Return what a terminal shows; few lines."""

    @abstractmethod
    def html(self) -> str:
        """Return the static HTML form: everything escaped, no script, no link."""

    @abstractmethod
    def receive(self, message: Mapping[str, Any]) -> None:
        """Take a message of the front end, `{"type": …}`; a `UserError` is told to it."""

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message to every view; from any thread. With no front end it goes nowhere."""
        self.send(dict(message))

    def open(self) -> None:
        """Open the connection to the front end, where there is one."""
        if live():
            super().open()

    def __repr__(self) -> str:
        return self.text()

    def _on_message(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        with self.lock:
            try:
                self.receive(content)
            except UserError as error:
                self.tell(Problem(type="problem", message=str(error), details=None))
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
                details = traceback.format_exc()
                self.tell(Problem(type="problem", message=told, details=details))
                raise

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        if live():
            self.open()  # only when it is not open yet
            data, metadata = super()._repr_mimebundle_() or ({}, {})
        return {**data, "text/plain": self.text(), "text/html": self.html()}, metadata
