"""Who shows a run, and that no view can harm it."""

import itertools
import time

import pytest

from tests.runs.helpers import SmallJob, small_job, start_python
from theseus.config import build
from theseus.errors import UserError
from theseus.job import RunIdentity
from theseus.runs import list_runs, open_run, watching
from theseus.runs.watching import chosen_watchers


class Witness:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def started(self, run, opening):
        self.told.append(("started", opening.attempt, opening.finished))

    def report(self, step, tokens, values):
        self.told.append(("report", step, tokens, dict(values)))

    def event(self, kind, facts):
        self.told.append(("event", kind, dict(facts)))

    def update(self, summary):
        self.told.append(("update", summary))

    def ended(self, run):
        self.told.append(("ended", run.state))

    def of(self, kind):
        return [told for told in self.told if told[0] == kind]


def test_a_view_is_told_everything_in_order(root):
    witness = Witness()

    def body(recorder):
        recorder.event("resumed", step=0)
        recorder.progress(1, 2, unit="steps")
        recorder.report(1, {"train/loss": 2.0}, tokens=8)
        time.sleep(0.6)
        recorder.progress(2, 2, unit="steps")
        recorder.report(2, {"train/loss": 1.0}, tokens=16)

    run = small_job(root, body=body, watchers=[witness])()
    assert witness.told[0] == ("started", 1, False)
    assert witness.told[-1] == ("ended", "finished")
    assert witness.of("event") == [("event", "resumed", {"step": 0})]
    assert witness.of("report") == [
        ("report", 1, 8, {"train/loss": 2.0}),
        ("report", 2, 16, {"train/loss": 1.0}),
    ]
    summaries = [summary for _, summary in witness.of("update")]
    assert summaries[-1].progress.done == 2
    assert summaries[-1].latest == {"train/loss": 1.0}
    assert summaries[-1].id == run.id
    # Nothing new: the very same object, so that a view can tell at once.
    assert any(one is other for one, other in itertools.pairwise(summaries))


def test_a_view_of_a_finished_run_is_told_so(root):
    small_job(root)()
    witness = Witness()
    small_job(root, watchers=[witness])()
    assert witness.told == [("started", 1, True), ("ended", "finished")]


@pytest.mark.parametrize("broken", ["started", "report", "event", "update", "ended"])
def test_a_view_that_fails_is_left_out_and_the_run_goes_on(root, broken):
    class Broken(Witness):
        pass

    def fail(self, *arguments):
        self.told.append(("failed",))
        msg = "no canvas"
        raise ZeroDivisionError(msg)

    setattr(Broken, broken, fail)
    view, other = Broken(), Witness()

    def body(recorder):
        for step in (1, 2, 3):
            recorder.report(step, {"train/loss": 1.0})
            recorder.event("note")
        time.sleep(0.3)
        recorder.report(4, {"train/loss": 1.0})

    run = small_job(root, body=body, watchers=[view, other])()
    assert run.state == "finished"
    assert len(other.of("report")) == 4
    assert len(view.of("failed")) == 1
    if broken != "ended":  # then the records are complete already
        (warning,) = [event for event in run.events() if event["kind"] == "warning"]
        assert warning["message"] == "Broken stopped showing the run: ZeroDivisionError: no canvas"


def test_a_view_that_cannot_be_made_does_not_stop_the_job(root, monkeypatch):
    monkeypatch.delenv("THESEUS_PROGRESS", raising=False)
    monkeypatch.setattr(watching, "TERMINAL", "theseus.no_such_module:View")
    config = build(*SmallJob.configs())
    job = SmallJob(config, root=root, identity=RunIdentity("shown"), open_run=open_run)
    run = job()
    assert run.state == "finished"
    assert any("is not shown" in event.get("message", "") for event in run.events())


def test_the_environment_can_silence_the_views(monkeypatch):
    monkeypatch.setenv("THESEUS_PROGRESS", "none")
    assert chosen_watchers(pytest.fail) == []
    monkeypatch.setenv("THESEUS_PROGRESS", "nome")
    with pytest.raises(UserError, match=r"THESEUS_PROGRESS.*'nome', did you mean 'none'"):
        chosen_watchers(pytest.fail)


def test_outside_a_notebook_the_terminal_shows_it(monkeypatch):
    monkeypatch.delenv("THESEUS_PROGRESS", raising=False)
    (view,) = chosen_watchers(pytest.fail)
    assert type(view).__name__ == "TerminalView"


def test_the_room_imports_neither_views_nor_jax():
    code = """
import sys
import theseus.runs, theseus.runs.card
heavy = {"jax", "flax", "optax", "datasets", "matplotlib", "IPython", "rich", "numpy"}
print(sorted(heavy & set(sys.modules)))
"""
    output, errors = start_python(code).communicate(timeout=60)
    assert output == "[]\n", errors


def test_a_run_is_recorded_without_importing_them_either(root):
    code = """
import sys
from pathlib import Path
from tests.runs.helpers import small_job
run = small_job(Path(sys.argv[1]))()
repr(run), run._repr_html_()
print(sorted({"jax", "flax", "matplotlib", "IPython"} & set(sys.modules)))
"""
    output, errors = start_python(code, root).communicate(timeout=60)
    assert output == "[]\n", errors
    assert len(list_runs(root)) == 1
