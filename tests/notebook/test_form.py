"""The form of a recipe, over a connection that is written down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from theseus.config import InvalidValueError
from theseus.notebook import form as forms
from theseus.notebook.form import ConfigForm
from theseus.quick import QuickJob, init


@pytest.fixture
def q(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuickJob]:
    monkeypatch.setenv("THESEUS_WIDGETS", "1")
    recipe = init(root)
    yield recipe.build("gpt/train/pretrain", "a form")
    recipe.close()
    ConfigForm.close_all()  # what is open is kept, and with it the recipe
    forms._own.clear()


class View:
    """A front end: what it was sent, and what it does."""

    def __init__(self, form: ConfigForm, monkeypatch: pytest.MonkeyPatch) -> None:
        self.form, self.sent, self.number = form, list[dict[str, Any]](), 0
        monkeypatch.setattr(form, "tell", lambda message: self.sent.append(dict(message)))

    def ask(self, kind: str, **rest: Any) -> dict[str, Any]:
        """Send a message and return what it was answered with."""
        self.number += 1
        message = {"type": kind, "id": self.number, "generation": self.form._generation, **rest}
        self.form._on_message(None, message, [])
        return next(one for one in reversed(self.sent) if one.get("id") == self.number)

    def set(self, key: str, text: str | None, burst: str = "") -> dict[str, Any]:
        return self.ask("set", key=key, text=text, burst=burst)


@pytest.fixture
def view(q: QuickJob, monkeypatch: pytest.MonkeyPatch) -> View:
    return View(ConfigForm(q), monkeypatch)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("architecture.n_embd", "1_28", 128),
        ("optimization.lr", "3e-4", 3e-4),
        ("architecture.rope", "true", True),
        ("optimization.optimizer", "muon", "muon"),
        ("optimization.grad_clip", None, None),
        ("data.suffix", "null", "null"),
        ("training.start_from", None, None),
        ("training.start_from", "", ""),
    ],
)
def test_a_control_sets_the_configuration_at_once(
    q: QuickJob, view: View, key: str, text: str | None, value: Any
) -> None:
    answer = view.set(key, text)
    group, name = key.split(".")
    found = q.config[group][name]
    assert (type(found), found) == (type(value), value)
    assert answer["type"] == "cells"


def test_what_does_not_fit_is_refused_in_the_words_of_code(q: QuickJob, view: View) -> None:
    answer = view.set("architecture.n_embd", "wide")
    with pytest.raises(InvalidValueError) as error:
        q.config.architecture.n_embd = "wide"
    assert (answer["type"], answer["message"]) == ("refused", str(error.value))
    assert q.config.architecture.n_embd == 768


def test_code_shows_when_the_cell_ends_also_from_a_thread(q: QuickJob, view: View) -> None:
    thread = threading.Thread(target=lambda: q.config.architecture.update(n_embd=64))
    thread.start()
    thread.join()
    forms._after_cell()
    assert view.sent[-1]["cells"] == {"architecture.n_embd": {"text": "64", "changed": True}}
    count = len(view.sent)
    forms._after_cell()
    assert len(view.sent) == count, "nothing is sent when nothing changed"


def test_building_again_shows_the_new_job_and_takes_no_edit_of_the_old(
    q: QuickJob, view: View
) -> None:
    old = view.form._generation
    q.build("gpt/train/pretrain", "another")
    view.ask("set", key="architecture.n_embd", text="64", generation=old)
    answer = view.sent[-1]
    assert answer["type"] == "refused"
    assert "built anew" in answer["message"]
    assert q.config.architecture.n_embd == 768
    assert [one["form"]["name"] for one in view.sent if one["type"] == "form"] == ["another"]


def test_undo_goes_back_through_edits_of_the_form_and_of_code(q: QuickJob, view: View) -> None:
    for text in ("1", "12", "128"):
        view.set("architecture.n_embd", text, burst="one go")
    q.config.architecture.n_layers = 3
    answer = view.ask("undo")
    assert (q.config.architecture.n_layers, q.config.architecture.n_embd) == (12, 128)
    assert (answer["undo"], answer["redo"]) == (1, 1)
    view.ask("undo")
    assert q.config.architecture.n_embd == 768
    view.ask("redo")
    assert q.config.architecture.n_embd == 128
    view.ask("reset")
    assert q.config.architecture.n_embd == 768
    view.ask("undo")
    assert q.config.architecture.n_embd == 128


def test_interpolations_show_their_value_and_missing_keys_are_marked(
    q: QuickJob, view: View
) -> None:
    cells = view.set("architecture.n_head", "${architecture.n_layers}")["cells"]
    assert cells["architecture.n_head"] == {
        "text": "${architecture.n_layers}",
        "value": "12",
        "changed": True,
    }
    q.config.training.seed = "???"
    forms._after_cell()
    cell = view.sent[-1]["cells"]["training.seed"]
    assert cell["missing"]
    assert "BaseTrainerConfig" in cell["problem"]
    cells = view.set("architecture.n_head", "${architecture.nothing}")["cells"]
    assert "nothing" in cells["architecture.n_head"]["problem"]


def test_two_forms_of_two_recipes_do_not_mix_and_two_of_one_agree(
    q: QuickJob, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = init(root).build("gpt/train/pretrain", "other")
    first, second, third = (View(ConfigForm(one), monkeypatch) for one in (q, q, other))
    first.set("architecture.n_embd", "64")
    assert second.sent[-1]["cells"] == {"architecture.n_embd": {"text": "64", "changed": True}}
    assert third.sent == []
    assert other.config.architecture.n_embd == 768
    assert ConfigForm(q)._state()["cells"]["architecture.n_embd"]["text"] == "64"
    other.close()


def test_an_edit_costs_less_than_two_kilobytes(view: View) -> None:
    view.set("architecture.n_embd", "64")
    assert sum(len(json.dumps(one)) for one in view.sent) < 2000


def test_a_recipe_shows_itself_as_a_form_with_text_and_html_beside_it(
    q: QuickJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = q._repr_mimebundle_()
    again, _ = q._repr_mimebundle_()
    name = "application/vnd.jupyter.widget-view+json"
    assert data[name]["model_id"] == again[name]["model_id"]
    assert "a form" in data["text/plain"]
    assert "<table" in data["text/html"]
    monkeypatch.setenv("THESEUS_WIDGETS", "0")
    data, _ = q._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    assert ConfigForm(q).comm is None
