"""The live view of a run: what it shows, how often, and in a real kernel."""

import base64
import itertools
import re
import time
from dataclasses import replace

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.runs.helpers import ROOT, small_job
from theseus.notebook import live
from theseus.notebook.live import LiveView
from theseus.runs import list_runs
from theseus.runs.summary import Progress

LIMIT = 100_000


class Output:
    """Stands for the notebook: keeps every bundle with the moment at which it was shown."""

    def __init__(self):
        self.shown = []

    def __call__(self, bundle, metadata, identity, update):
        self.shown.append((time.monotonic(), bundle, identity, update))

    @property
    def last(self):
        return self.shown[-1][1]


@pytest.fixture
def output():
    return Output()


def train(recorder):
    for step in range(1, 5):
        recorder.progress(step, 4, unit="steps")
        recorder.report(step, {"train/loss": 10 / step, "val/loss": 11 / step})
    recorder.event("checkpoint", step=4)


def test_one_output_is_made_and_then_updated_at_most_once_a_second(root, output):
    def body(recorder):
        for step in range(1, 250):
            time.sleep(0.01)
            recorder.progress(step, 250, unit="steps")
            recorder.report(step, {"train/loss": 10 / step})

    small_job(root, body=body, watchers=[LiveView(output)])()
    moments = [moment for moment, *_ in output.shown]
    assert len({identity for _, _, identity, _ in output.shown}) == 1
    assert [update for *_, update in output.shown] == [False] + [True] * (len(moments) - 1)
    assert 3 <= len(moments) <= 5
    # The last one, with the final state, does not wait.
    assert all(b - a >= live.INTERVAL for a, b in itertools.pairwise(moments[:-1]))


def test_nothing_is_sent_when_nothing_happens(root, output):
    def body(recorder):
        recorder.progress(1, 2, unit="steps")
        time.sleep(2.5)

    small_job(root, body=body, watchers=[LiveView(output)])()
    assert len(output.shown) == 3  # the beginning, the one progress, the end


def test_the_final_state_is_shown_with_its_curve_and_small(root, output):
    run = small_job(root, "<b>name", body=train, watchers=[LiveView(output)])()
    bundle = output.last
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    assert "finished in" in bundle["text/html"]
    assert "&lt;b&gt;name" in bundle["text/html"]
    assert "<b>name" not in bundle["text/html"]
    assert "data:image/png;base64," in bundle["text/html"]
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert bundle["text/plain"].startswith(f"<b>name {run.id}  finished")
    assert "loss 10.00 █▃▁▁ 2.500, steps 1 to 4" in bundle["text/plain"]
    assert sum(map(len, bundle.values())) < LIMIT


def test_even_a_long_run_gives_a_small_output(root, output):
    def body(recorder):
        for step in range(1, 3000):
            recorder.report(step, {"train/loss": 10 / step + (step * 7919 % 13) / 10})
            recorder.progress(step, 3000, unit="steps", **{f"fact {i}": i for i in range(50)})

    small_job(root, "n" * 10_000, body=body, watchers=[LiveView(output)])()
    assert sum(map(len, output.last.values())) < LIMIT


def test_a_failure_shows_the_error_first_and_how_to_go_on(root, output):
    def body(recorder):
        train(recorder)
        msg = "<script>alert(1)</script> is not a shape"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="not a shape"):
        small_job(root, body=body, watchers=[LiveView(output)])()
    html, text = output.last["text/html"], output.last["text/plain"]
    assert "✗</span> failed" in html
    assert "<script>" not in html
    assert html.index("is not a shape") < html.index("step 4/4") < html.index("data:image/png")
    assert "Run this cell again to go on from step 4." in html
    assert text.split("\n")[1] == "ValueError: <script>alert(1)</script> is not a shape"
    assert "go on from step 4" in text


def test_a_cancelled_run_says_how_to_go_on(root, output):
    def body(recorder):
        train(recorder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_job(root, body=body, watchers=[LiveView(output)])()
    assert "cancelled (interrupted)" in output.last["text/html"]
    assert "Run this cell again to go on from step 4." in output.last["text/html"]


def test_a_run_that_had_finished_is_shown_once_with_its_curve(root, output):
    small_job(root, body=train)()
    small_job(root, body=train, watchers=[LiveView(output)])()
    assert len(output.shown) == 1
    assert re.search(r"Already finished on \d{4}-.*job\(fresh=True\)", output.last["text/html"])
    assert "data:image/png" in output.last["text/html"]


def test_a_continued_run_shows_the_curve_of_before_without_what_was_undone(root, output):
    def first(recorder):
        for step in range(1, 9):
            recorder.report(step, {"train/loss": 10.0 - step})
        raise KeyboardInterrupt

    def second(recorder):
        recorder.event("resumed", step=4)
        time.sleep(0.3)
        recorder.report(5, {"train/loss": 1.0})

    with pytest.raises(KeyboardInterrupt):
        small_job(root, body=first)()
    view = LiveView(output)
    small_job(root, body=second, watchers=[view])()
    assert view._losses.train.steps == [1, 2, 3, 4, 5]
    assert "loss 9.000" in output.shown[0][1]["text/plain"]


def test_a_job_without_losses_has_no_picture(root, output):
    def body(recorder):
        recorder.progress(5, 10, unit="documents")

    small_job(root, body=body, watchers=[LiveView(output)])()
    assert "<img" not in output.last["text/html"]
    assert set(output.last) == {"text/plain", "text/html"}
    assert "5/10 documents (50 %)" in output.last["text/plain"]


def test_drawing_takes_a_small_share_of_the_time(root, output, monkeypatch):
    """However often there are new losses: the time between two pictures follows their cost."""
    drawn = []

    def slow(losses, until=None):
        drawn.append(time.monotonic())
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
        return b"png"

    monkeypatch.setattr(live.plots, "loss_png", slow)
    monkeypatch.setattr(live, "INTERVAL", 0.0)
    run = small_job(root)()
    view = LiveView(output)
    view.started(run, type("Opening", (), {"finished": False, "attempt": 1}))
    summary = run.summary()
    end = time.monotonic() + 3
    step = 5
    while time.monotonic() < end:
        step += 1
        view.report(step, 0, {"train/loss": 1.0})
        view.update(replace(summary, progress=Progress(step, 100, "steps")))
        time.sleep(0.02)
    # At 0 s, 1 s (the first is not measured) and 2 s: 0.1 s is a tenth of 1 s. Fewer where the
    # machine is busy and a picture takes longer; never one for each of the hundred losses.
    assert 1 <= len(drawn) <= 4
    assert len(output.shown) > len(drawn)  # the facts do not wait for the picture


# In a real kernel, without a front end.

CELL = """
import time
from pathlib import Path
from tests.runs.helpers import SmallJob
from theseus.config import build
from theseus.job import RunIdentity
from theseus.runs import open_run

def body(recorder):
    for step in range(1, 301):
        time.sleep(0.01)
        recorder.progress(step, 300, unit="steps")
        recorder.report(step, {"train/loss": 10 / step ** 0.3})
    END

print("before")
job = SmallJob(build(*SmallJob.configs()), root=Path(ROOT), identity=RunIdentity("shown"),
               open_run=open_run)
job.body = body
run = job()
print("after")
"""


@pytest.fixture
def execute(root, monkeypatch):
    monkeypatch.delenv("THESEUS_PROGRESS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def execute(*cells, allow_errors=False):
        sources = [cell.replace("ROOT", repr(str(root))) for cell in cells]
        notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
        client = NotebookClient(notebook, timeout=120, kernel_name="python3")
        client.updates = []
        handle = client.process_message

        def watch(message, cell, cell_index):
            if message["msg_type"] in {"display_data", "update_display_data", "clear_output"}:
                client.updates.append((time.monotonic(), message))
            return handle(message, cell, cell_index)

        client.process_message = watch
        try:
            client.execute()
        except CellExecutionError:
            if not allow_errors:
                raise
        nbformat.validate(notebook)
        return notebook, client.updates

    return execute


def displays(cell):
    return [output for output in cell.outputs if output.output_type == "display_data"]


def printed(cell, name="stdout"):
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == name)


@pytest.mark.slow
def test_in_a_kernel_there_is_one_output_that_is_updated(execute, root):
    notebook, updates = execute(CELL.replace("END", "pass"), "run")
    first, second = notebook.cells
    (display,) = displays(first)
    assert display.data["text/plain"].startswith("shown ")
    assert "finished in" in display.data["text/html"]
    assert display.data["image/png"]
    assert sum(len(str(value)) for value in display.data.values()) < LIMIT
    assert printed(first) == "before\nafter\n"
    assert printed(first, "stderr") == ""
    kinds = [message["msg_type"] for _, message in updates]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    moments = [moment for moment, _ in updates]
    # Once a second at the most; on average, because a busy machine receives them in clumps.
    assert len(moments) >= 3
    assert (moments[-2] - moments[0]) / (len(moments) - 2) > 0.6
    (result,) = second.outputs
    assert "finished in" in result.data["text/html"]
    assert "metadata" not in notebook.metadata.get("widgets", {})
    (run,) = list_runs(root)
    assert "before" not in run.log_path.read_text()


@pytest.mark.slow
def test_in_a_kernel_a_failure_is_shown_above_the_traceback(execute):
    notebook, _ = execute(CELL.replace("END", "1 / 0"), allow_errors=True)
    (cell,) = notebook.cells
    (display,) = displays(cell)
    assert "✗</span> failed" in display.data["text/html"]
    assert "ZeroDivisionError" in display.data["text/plain"]
    assert [output.output_type for output in cell.outputs][-1] == "error"


@pytest.mark.slow
def test_the_stop_button_ends_at_the_next_step_and_says_how_to_go_on(root, monkeypatch):
    from jupyter_client.manager import start_new_kernel

    monkeypatch.delenv("THESEUS_PROGRESS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stop = "if recorder.stopping: raise StopRequested('stopped')"
    code = CELL.replace("ROOT", repr(str(root))).replace("END", "pass")
    code = code.replace("        recorder.report", f"        {stop}\n        recorder.report")
    code = code.replace("import RunIdentity", "import RunIdentity, StopRequested")
    manager, client = start_new_kernel()
    try:
        client.execute(code)
        htmls, ename, interrupted = [], None, False
        while True:
            message = client.get_iopub_msg(timeout=60)
            content = message["content"]
            if message["msg_type"] in {"display_data", "update_display_data"}:
                htmls.append(content["data"]["text/html"])
            if len(htmls) == 2 and not interrupted:
                interrupted = True
                manager.interrupt_kernel()
            if message["msg_type"] == "error":
                ename = content["ename"]
            if content.get("execution_state") == "idle" and interrupted:
                break
        assert ename == "StopRequested"
        assert "cancelled (interrupted)" in htmls[-1]
        assert "Run this cell again" in htmls[-1]
        # The kernel is as it was: the next cell can be interrupted as ever.
        reply = client.execute("import signal; print(signal.getsignal(signal.SIGINT))", reply=True)
        assert reply["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    (run,) = list_runs(root)
    assert run.state == "cancelled"


@pytest.mark.slow
def test_in_an_async_cell_it_works_the_same(execute):
    cell = "import asyncio\nawait asyncio.sleep(0)\n" + CELL.replace("END", "pass")
    notebook, _ = execute(cell)
    (display,) = displays(notebook.cells[0])
    assert "finished in" in display.data["text/html"]


OWN_CLASS = """
from pathlib import Path
from tests.runs.helpers import SmallConfig
from theseus.config import build
from theseus.job import Job, RunIdentity
from theseus.runs import open_run

def helper(step):
    return 1.0 / step

class MyJob(Job):
    CONFIG = SmallConfig

    def run(self, recorder):
        recorder.report(1, {"train/loss": helper(1)})

def start():
    job = MyJob(build(SmallConfig), root=Path(ROOT), identity=RunIdentity("own"), open_run=open_run)
    return job()

ids = [start().id]
"""


@pytest.mark.slow
def test_a_class_written_in_a_cell_is_the_same_run_until_its_code_changes(execute, root):
    again = OWN_CLASS.replace("ids = [start().id]", "ids.append(start().id)")
    other = again.replace("1.0 / step", "2.0 / step")
    show = "print(ids[0] == ids[1], ids[1] == ids[2])"
    notebook, _ = execute(OWN_CLASS, again, other, show)
    assert printed(notebook.cells[-1]) == "True False\n"
    execute(OWN_CLASS)  # another kernel
    assert len(list_runs(root)) == 2
