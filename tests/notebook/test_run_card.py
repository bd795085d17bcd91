"""The card of a run: what is sent to its views, what its buttons do, and what stays in the file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending, until
from theseus.cli.call import call
from theseus.dispatch import showing
from theseus.dispatch.again import recipe_of
from theseus.dispatch.dispatched import DispatchedRun, DispatchError
from theseus.dispatch.showing import Facts, LocalRun, source_of
from theseus.notebook import desk as desks
from theseus.notebook.desk import Card, Desk
from theseus.notebook.record import MIME, Record
from theseus.notebook.run_card import RunCard
from theseus.notebook.submit import SubmitPanel
from theseus.runs import Run
from theseus.runs.summary import Summary

pytestmark = pytest.mark.slow

SECRET = "hf_0123456789abcdefghij"


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    return Sending(tmp_path, monkeypatch)


class Views:
    """What a page would have by now."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, int]] = []
        self.cards: list[Card] = []
        self.log: dict[str, str] = {}
        self.steps: dict[str, list[int]] = {}
        self.outputs: list[tuple[dict[str, Any], bool]] = []
        self.record = Record(lambda bundle, _, __, update: self.outputs.append((bundle, update)))

    def send(self, message: Mapping[str, Any]) -> None:
        size = len(json.dumps(message, ensure_ascii=False).encode())
        self.sent.append((time.monotonic(), size))
        if message["type"] == "reset":
            self.log, self.steps = {}, {}
        for part in message.get("logs", ()):
            self.log[part["lane"]] = self.log.get(part["lane"], "") + part.get("text", "")
        for piece in message.get("curves", ()):
            self.steps.setdefault(piece["run"], []).extend(piece["train"]["step"])

    def show(self, card: Card) -> None:
        self.cards.append(card)

    @property
    def run(self) -> Facts:
        return self.cards[-1]["run"]


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("theseus card")]


# A run that was sent


def test_a_card_follows_a_run_to_its_end_and_leaves_nothing_behind(
    sending: Sending, capfd: pytest.CaptureFixture[str]
) -> None:
    run = sending.submit(sending.spec("train <b>me</b>", steps=5))
    views = Views()
    desk = Desk(source_of(run), views, views.record)
    assert threads() == []  # nobody looks yet
    desk.record(update=False)
    desk.receive({"type": "hello"})
    until(lambda: views.cards and views.run["ended"] and not threads())
    assert views.run["state"] == "finished"
    assert views.run["shape"] == "✓"
    assert views.run["progress"] is not None
    assert views.run["progress"]["position"] == "step 5/5 (100 %)"
    assert views.run["can"] == ["fetch", "resubmit"]
    assert views.steps == {run.id: [1, 2, 3, 4, 5]}
    assert views.log == {"0": (sending.folder(run) / "log/0.log").read_text()}

    # What stays in the saved notebook: no widget, small, and text where it is text.
    shown, *updates = views.outputs
    assert not shown[1]
    assert all(update for _, update in updates)
    last = updates[-1][0]
    assert set(last) == {"text/plain", "text/html", "image/png", MIME}
    assert len(json.dumps(last)) < 64_000
    assert "<b>me" not in last["text/html"]
    assert "train &lt;b&gt;me" in last["text/html"]
    assert "secret is 0 long" in last["text/plain"]
    assert last[MIME]["state"] == "finished"
    assert last[MIME]["curves"]["train"] == [[1, 1.0], [2, 0.5], [3, 0.333333], [4, 0.25], [5, 0.2]]

    # A page that is loaded again gets it all again, once.
    desk.receive({"type": "hello"})
    until(lambda: run.id in views.steps and not threads())
    assert views.steps == {run.id: [1, 2, 3, 4, 5]}
    # The same run in its own folder, without the registry.
    local = Views()
    Desk(LocalRun(Run(sending.folder(run))), local).receive({"type": "hello"})
    until(lambda: local.cards and not threads())
    assert (local.steps, local.log, local.run["can"]) == (views.steps, views.log, [])
    # In a terminal: where it stands, and the end of its log.
    capfd.readouterr()
    call(["watch", run.id])
    printed = capfd.readouterr().out
    assert "finished on me" in printed
    assert printed.index("finished on me") < printed.index("secret is 0 long")


def test_cancel_is_done_once_and_said_and_the_run_can_be_submitted_again(sending: Sending) -> None:
    run = sending.submit(sending.spec(steps=2000, pause=0.05))
    views = Views()
    desk = Desk(source_of(run, sending.spec(steps=2000, pause=0.05)), views)
    desk.receive({"type": "hello"})
    until(lambda: views.cards and views.run["state"] == "running" and views.steps)
    assert views.run["can"] == ["cancel", "fetch"]
    desk.receive({"type": "resubmit"})
    assert views.cards[-1]["answers"]["resubmit"]["text"] == "this run cannot resubmit now"
    desk.receive({"type": "cancel"})
    desk.receive({"type": "cancel"})
    until(lambda: views.run["ended"] and not views.cards[-1]["answers"]["cancel"]["busy"])
    answer = views.cards[-1]["answers"]["cancel"]
    assert answer == {"busy": False, "ok": True, "text": f"cancelled on {run.host}"}
    desk.receive({"type": "fetch", "to": str(sending.tmp / "here")})
    until(lambda: not views.cards[-1]["answers"].get("fetch", {"busy": True})["busy"])
    assert (sending.tmp / "here" / "metrics.jsonl").is_file()
    with pytest.raises(DispatchError, match="no job that is known here"):
        recipe_of(run)
    desk.receive({"type": "resubmit"})
    until(lambda: not views.cards[-1]["answers"].get("resubmit", {"busy": True})["busy"])
    assert views.cards[-1]["answers"]["resubmit"]["text"].endswith("attempt 2")
    until(lambda: views.run["state"] == "running")
    run.cancel()
    desk.close()


# The panel


def test_a_double_click_sends_one_run_and_the_card_takes_its_place(sending: Sending) -> None:
    sending.write_inventory(host=f"env: {{HF_TOKEN: {SECRET}, COLOR: red}}")
    panel = SubmitPanel(lambda: sending.spec(steps=3), inventory=sending.inventory)
    panel._record = Views().record
    panel.receive({"type": "probe"})
    until(lambda: not panel.panel["probing"])
    (host,) = panel.panel["hosts"]
    assert (host["name"], host["fit"], host["chosen"]) == ("me", "now", True)
    panel.receive({"type": "dry", "name": "other name"})
    until(lambda: not panel.panel["busy"])
    assert "would be sent" in panel.panel["rehearsal"]
    assert "other name" in panel.panel["rehearsal"]
    click = {"type": "submit", "name": "my run", "project": "mine", "group": "", "host": "me"}
    began = time.monotonic()
    panel.receive(click)
    panel.receive(click)
    assert time.monotonic() - began < 1  # whatever it takes to send
    until(lambda: panel.card)
    assert panel.panel["ok"], panel.panel["said"]
    (entry,) = sending.registry.entries()
    assert (entry.name, entry.project, entry.group) == ("my run", "mine", "default")
    until(lambda: panel.card["run"]["ended"] and not threads())
    assert panel.card["run"]["state"] == "finished"
    everything = json.dumps([panel.panel, panel.card, panel.text(), panel.html()])
    assert SECRET not in everything


def test_what_is_wrong_is_said_where_it_was_asked_for(sending: Sending) -> None:
    sending.inventory.write_text("hosts: {me: {type: locl}}")
    panel = SubmitPanel(sending.spec, inventory=sending.inventory)
    panel.receive({"type": "probe"})
    until(lambda: not panel.panel["probing"])
    assert "did you mean 'local'" in panel.panel["trouble"]
    panel.receive({"type": "submit", "name": "x"})
    until(lambda: not panel.panel["busy"])
    assert not panel.panel["ok"]
    assert "did you mean 'local'" in panel.panel["said"]


# How much is sent


class Printing:
    """A run whose log grows as fast as the disk takes it."""

    id, name = "abcdef", "printing"

    def __init__(self, folder: Path) -> None:
        self.log, self.ended = folder / "0.log", False
        self._metrics = folder / "metrics.jsonl"

    def summary(self) -> Summary:
        return Summary(self.name, self.id, "job", self.log.parent, "running")

    def facts(self) -> Facts:
        return showing._facts(self.summary(), "general", "default")

    def lanes(self) -> Mapping[str, Path]:
        return {"0": self.log}

    def metrics_file(self) -> Path:
        return self._metrics

    def begin(self, stop: threading.Event) -> None:
        return

    def once(self) -> None:
        return

    def settled(self) -> bool:
        return self.ended


def test_however_much_is_printed_little_is_sent(tmp_path: Path) -> None:
    source, views = Printing(tmp_path), Views()
    desk = Desk(source, views)
    desk.receive({"type": "hello"})
    line = b"\x1b[32mstep\x1b[0m 12 loss 3.412 " + b"\x00" * 20 + b"\n"
    with source.log.open("wb") as file:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            file.write(line * 5000)
            file.flush()
            time.sleep(0.02)
        file.write(b"the end\n")
    source.ended = True
    until(lambda: not threads())
    assert source.log.stat().st_size > 5e6
    assert views.log["0"].endswith("the end\n")
    for start, _ in views.sent:
        within = [size for at, size in views.sent if start <= at < start + 1]
        assert len(within) <= 10
        assert sum(within) <= 200_000


def test_nothing_is_fed_that_nobody_looks_at(tmp_path: Path, monkeypatch: Any) -> None:
    source, views = Printing(tmp_path), Views()
    source.log.write_text("one\n")
    desk = Desk(source, views)
    desk.receive({"type": "hello"})
    until(lambda: views.log)
    desk.receive({"type": "bye"})
    until(lambda: not threads(), 5)
    # A page that was closed says nothing any more.
    monkeypatch.setattr(desks, "GONE", 0.3)
    desk.receive({"type": "hello"})
    until(lambda: not threads(), 5)
    # One that slept and wakes up is fed again.
    monkeypatch.setattr(desks, "GONE", 100)
    desk.receive({"type": "ping"})
    until(threads, 5)
    desk.close()


def test_no_secret_reaches_a_card_or_the_saved_notebook(sending: Sending) -> None:
    sending.write_inventory(host=f"env: {{HF_TOKEN: {SECRET}}}")
    run = sending.submit(sending.spec(steps=1))
    assert run.wait() == "finished"
    with (sending.folder(run) / "log/0.log").open("a") as file:
        file.write(f"the token {SECRET}\n")  # as a job of the user's may print it
    views = Views()
    desk = Desk(source_of(run), views, views.record)
    desk.receive({"type": "hello"})
    until(lambda: views.cards and views.run["ended"] and not threads())
    assert views.log["0"].endswith(f"the token {'*' * len(SECRET)}\n")
    saved = json.dumps([bundle for bundle, _ in views.outputs])
    assert "*" * len(SECRET) in saved
    assert SECRET not in saved + json.dumps([views.cards, views.log])


def test_without_a_front_end_a_card_is_text_and_nothing_waits(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sending.submit(sending.spec(steps=2000, pause=0.05))
    until(lambda: run.state == "running")
    views = Views()
    before = threading.active_count()
    RunCard(run, record=views.record)._ipython_display_()
    assert threading.active_count() <= before
    assert threads() == []
    ((bundle, update),) = views.outputs
    assert not update
    assert "count" in bundle["text/plain"]
    assert "running" in bundle["text/plain"]
    assert "secret is 0 long" in bundle["text/plain"]
    assert DispatchedRun.find(run.id).cancel() == "cancelled"
