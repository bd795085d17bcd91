"""What stands behind a run card: a thread that feeds its views, and what its buttons do.

Nothing runs until a view says hello, and nothing is left when the last one says bye, is silent for
long (its page was closed) or the run has ended: a card that nobody looks at costs nothing. It sends
a few messages a second of a bounded size, however much a run prints.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypedDict

from theseus.dispatch.log_secrets import secrets_of
from theseus.dispatch.secrets import Secret
from theseus.dispatch.showing import Facts, SentRun, Source, others, source_of
from theseus.errors import UserError
from theseus.notebook import threads
from theseus.notebook.curve_view import CurveFeed, Piece
from theseus.notebook.log_view import LogFeed, tail
from theseus.notebook.record import Record, until_of
from theseus.runs.files import RecordError

TICK = 0.25  # seconds between messages, at least
BYTES = 39_500  # of a message, so that no more than 200 KB go out in any second
GONE = 180.0  # seconds without a sign of any view; a hidden page is let to give one a minute
_RECORD = 10.0  # seconds between updates of the durable output while a run works
_CARD = 0.5  # seconds between updates of the facts
_TAIL = 40  # lines of the log in the durable output


class Answer(TypedDict):
    """What became of an action."""

    busy: bool
    ok: bool
    text: str


class Card(TypedDict):
    """All that a view of a card shows beside log and curves."""

    run: Facts
    answers: dict[str, Answer]
    others: list[dict[str, str]]
    compared: list[str]


class Front(Protocol):
    """How a card reaches its views."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to every view."""

    def show(self, card: Card) -> None:
        """Show the facts, and keep them for views that open later."""


class Desk:
    """One run behind one card.

    Parameters
    ----------
    source
        The run.
    front
        The views.
    record
        The durable output beside them, or None when there is none.
    compared
        Runs whose curves are drawn beside from the start.
    """

    def __init__(
        self,
        source: Source,
        front: Front,
        record: Record | None = None,
        compared: tuple[Source, ...] = (),
    ) -> None:
        self.source, self._front, self._record = source, front, record
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._stop.set()
        self._sign = 0.0
        self._answers: dict[str, Answer] = {}
        self._compared = {one.id: one for one in compared}
        self._shown: Card | None = None
        self._changed_run: Callable[[Source], None] | None = None

    # What views say

    def receive(self, message: Mapping[str, Any]) -> bool:
        """Take a message of a view; return whether it was one for a card."""
        what = message.get("type")
        with self._lock:
            self._sign = time.monotonic()
            if what == "hello":
                self._open()
            elif what == "ping":
                if self._stop.is_set() and not self.card()["run"]["ended"]:
                    self._open()  # a page that slept
            elif what == "bye":
                self._stop.set()
            elif what in {"cancel", "fetch", "resubmit"}:
                self._act(str(what), message)
            elif what == "compare":
                self._compare(str(message.get("run")), on=bool(message.get("on")))
            else:
                return False
            return True

    def card(self) -> Card:
        """Return the facts as they are now."""
        return Card(
            run=self.source.facts(),
            answers=dict(self._answers),
            others=others(self.source.id),
            compared=list(self._compared),
        )

    def close(self) -> None:
        """End the threads."""
        self._stop.set()

    # Feeding

    def _open(self) -> None:
        """Begin again from the start, for views that know nothing yet."""
        self._stop.set()
        self._stop = threading.Event()
        threads.start(self._feed, self._stop, name=f"theseus card {self.source.id}")

    def _feed(self, stop: threading.Event) -> None:
        try:
            self._feed_until(stop)
        except Exception as error:
            # A card that stopped for a mistake of ours must not look as if it went on.
            told = f"the card stopped: {type(error).__name__}: {error}"
            self._say("card", Answer(busy=False, ok=False, text=told))
            raise
        finally:
            stop.set()

    def _feed_until(self, stop: threading.Event) -> None:
        source = self.source
        source.begin(stop)
        self._front.send({"type": "reset"})
        log = _log_of(source)
        curves: dict[str, CurveFeed] = {}
        own = CurveFeed(source.id, source.name, source.metrics_file())
        card_at = record_at = 0.0
        state = ""
        ended = False
        while not stop.is_set():
            began = time.monotonic()
            if began - self._sign > GONE:
                return
            ended = source.settled()
            if began - card_at > _CARD:
                card_at = began
                self._show()
            feeds = [own, *self._beside(curves)]
            # One message with all that is new, the curves first: they are small.
            pieces = [piece for feed in feeds if (piece := feed.read()) is not None]
            cost = len(json.dumps(pieces)) if pieces else 0
            parts = log.read(BYTES - min(cost, BYTES // 2), last=ended)
            if pieces or parts:
                self._front.send(_batch(pieces, parts))
            elif ended and not log.behind:
                break
            now = self._shown["run"]["state"] if self._shown else ""
            if now != state or began - record_at > _RECORD:
                state, record_at = now, began
                self.record(own)
            stop.wait(max(TICK - (time.monotonic() - began), TICK / 2))
        if ended:
            self._show()
            self.record(own)

    def _beside(self, feeds: dict[str, CurveFeed]) -> list[CurveFeed]:
        """Return the feeds of the runs that are compared, made when they are new."""
        with self._lock:
            compared = dict(self._compared)
        for run in feeds.keys() - compared.keys():
            del feeds[run]
            self._front.send({"type": "drop", "run": run})
        for run, source in compared.items():
            if run not in feeds:
                feeds[run] = CurveFeed(run, source.name, source.metrics_file())
        return list(feeds.values())

    def _show(self) -> None:
        card = self.card()
        if card != self._shown:
            self._shown = card
            self._front.show(card)

    def record(self, curves: CurveFeed | None = None, *, update: bool = True) -> None:
        """Bring the durable output up to date, or show it first."""
        if self._record is None:
            return
        if curves is None:
            curves = CurveFeed(self.source.id, self.source.name, self.source.metrics_file())
            curves.read()
        try:
            summary = self.source.summary()
        except RecordError:
            return  # the folder was removed: what was shown of it stays
        losses = curves.losses()
        if self._record.may_draw():
            self._record.draw(losses, until_of(summary))
        facts = self.source.facts()
        note = (
            "" if facts["ended"] else f"`%theseus watch {self.source.id}` shows it live, anywhere."
        )
        first = next(iter(self.source.lanes().values()), None)
        self._record.display(
            summary,
            losses,
            note=note,
            tail=_end_of(self.source, first) if first else "",
            facts=facts,
            picture=True,
            update=update,
        )

    # Doing

    def _act(self, what: str, message: Mapping[str, Any]) -> None:
        if any(one["busy"] for one in self._answers.values()):
            return  # a second click, or another action while one is under way
        source = self.source
        if not isinstance(source, SentRun) or what not in source.facts()["can"]:
            self._say(what, Answer(busy=False, ok=False, text=f"this run cannot {what} now"))
            return
        self._say(what, Answer(busy=True, ok=True, text=_DOING[what]))

        def work() -> None:
            try:
                if what == "cancel":
                    told = source.cancel()
                elif what == "fetch":
                    to = str(message.get("to") or "").strip()
                    told = source.fetch(to, checkpoints=bool(message.get("checkpoints")))
                else:
                    told = self._again(source)
                answer = Answer(busy=False, ok=True, text=told)
            except UserError as error:
                answer = Answer(busy=False, ok=False, text=str(error))
            except Exception as error:  # noqa: BLE001 - told where it was asked for
                told = f"{type(error).__name__}: {error}"
                answer = Answer(busy=False, ok=False, text=told)
            self._say(what, answer)

        threads.start(work, name=f"theseus {what} {source.id}")

    def _again(self, source: SentRun) -> str:
        run = source.resubmit()
        with self._lock:
            self.source = source_of(run, source.spec)
            self._open()
        return f"submitted: {run.id} on {run.host}, attempt {run.entry.attempt}"

    def _say(self, what: str, answer: Answer) -> None:
        with self._lock:
            self._answers.pop(what, None)  # so that the newest is the last
            self._answers[what] = answer
            self._show()

    def _compare(self, run: str, *, on: bool) -> None:
        if not on:
            self._compared.pop(run, None)
        elif run not in self._compared and any(one["id"] == run for one in others(self.source.id)):
            from theseus.dispatch.dispatched import DispatchedRun

            beside = source_of(DispatchedRun.find(run))
            self._compared[run] = beside
            threads.start(_brought, beside, name=f"theseus card {beside.id}")
        self._show()
        if self._stop.is_set():
            self._open()  # a card whose run has ended feeds no more


_DOING = {"cancel": "ending it …", "fetch": "bringing its files …", "resubmit": "submitting …"}


def _log_of(source: Source) -> LogFeed:
    """Return the logs of a run for a view; none where it is not known what to cover in them."""
    try:
        return LogFeed(source.lanes, _hidden(source))
    except UserError:
        return LogFeed(dict)  # that the inventory cannot be read is said about the connection


def _end_of(source: Source, path: Path) -> str:
    try:
        return tail(path, _TAIL, hidden=_hidden(source))
    except UserError:
        return ""


def _hidden(source: Source) -> tuple[Secret, ...]:
    """Return the secrets that the log of a run may hold; what is in a folder here shows all."""
    return secrets_of(source.run.entry) if isinstance(source, SentRun) else ()


def _batch(pieces: list[Piece], parts: list[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "feed"}
    if pieces:
        message["curves"] = pieces
    if parts:
        message["logs"] = parts
    return message


def _brought(source: Source) -> None:
    try:
        source.once()
    except UserError:
        return  # what is here of it is drawn
