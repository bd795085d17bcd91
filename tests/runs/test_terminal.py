"""The terminal's view of a run (`theseus.cli.progress`)."""

import io
import os
import pty
import re
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.runs.helpers import ROOT, small_job
from tests.runs.test_summary import RUNNING
from theseus.cli import progress
from theseus.cli.progress import Line, TerminalView
from theseus.runs.summary import Progress


@pytest.mark.parametrize("width", range(20, 200, 7))
def test_the_line_fits_and_always_says_where_it_is(width):
    text = Line(RUNNING).text(width).plain
    assert cell_len(text) <= width
    if width >= 60:
        assert "step 1,240/3,814" in text
        assert "loss 3.410" in text


def test_a_wide_line_has_everything_and_a_narrow_one_the_most_wanted():
    wide = Line(RUNNING).text(160).plain
    for part in (
        "train-gpt",
        "━",
        "loss 3.410",
        "val 3.520",
        "lr 3.0e-4",
        "182k tok/s",
        "mood good",
    ):
        assert part in wide
    assert wide.endswith("41 min left")
    narrow = Line(RUNNING).text(80).plain
    assert "41 min left" in narrow
    assert "mood" not in narrow


@given(st.text(min_size=1), st.integers(10, 120))
def test_no_name_breaks_the_line(name, width):
    text = Line(replace(RUNNING, name=name)).text(width).plain
    assert cell_len(text) <= width
    assert text.isprintable()


def test_without_a_terminal_there_are_plain_lines_now_and_then(root, monkeypatch):
    monkeypatch.setattr(progress, "_FIRST", 0.5)
    stream = io.StringIO()

    def body(recorder):
        for step in range(1, 100):
            time.sleep(0.015)
            recorder.progress(step, 100, unit="steps")
            recorder.report(step, {"train/loss": 10 / step})

    run = small_job(root, body=body, watchers=[TerminalView(stream)])()
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()
    assert lines[0].startswith(f"small {run.id}  running in ")
    between = [line for line in lines if re.match(r"small \w+  step [\d,]+/100 ", line)]
    assert 2 <= len(between) <= 4
    assert lines[-2].startswith(f"✓ small {run.id}  finished in ")
    assert lines[-1].split() == ["folder", *str(run.folder).split()]


def test_a_finished_run_says_when_and_how_to_start_another(root):
    small_job(root)()
    stream = io.StringIO()
    small_job(root, watchers=[TerminalView(stream)])()
    assert re.search(r"already finished on \d{4}-.*`job\(fresh=True\)`", stream.getvalue())


def test_an_unfinished_run_says_how_to_go_on_and_where_the_log_is(root):
    stream = io.StringIO()

    def body(recorder):
        recorder.event("checkpoint", step=3)
        msg = "no [bold]luck[/bold]"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="luck"):
        small_job(root, body=body, watchers=[TerminalView(stream)])()
    assert "ValueError: no [bold]luck[/bold]" in stream.getvalue()
    assert "log/0.log" in stream.getvalue()
    assert stream.getvalue().endswith("Run the same command again to go on from step 3.\n")


SCRIPT = """
import sys, time
from pathlib import Path
from tests.runs.helpers import small_job
from theseus.cli.progress import TerminalView
from theseus.job import StopRequested

def body(recorder):
    for step in range(1, 1000):
        time.sleep(0.02)
        recorder.progress(step, 1000, unit="steps")
        recorder.report(step, {"train/loss": 10 / step})
        if step == 20:
            print("printed by the job")
        if recorder.stopping:
            time.sleep(0.5)
            raise StopRequested("stopped")

try:
    small_job(Path(sys.argv[1]), body=body, watchers=[TerminalView()])()
except StopRequested:
    pass
"""


def test_on_a_terminal_one_line_moves_and_ctrl_c_is_answered(root):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
        os.execve(sys.executable, [sys.executable, "-c", SCRIPT, str(root)], environment)
    seen, pressed = b"", False
    try:
        while True:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            seen += data
            if b"printed by the job" in seen and not pressed:
                os.write(terminal, b"\x03")
                pressed = True
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    text = seen.decode()
    assert "\r\x1b[2K" in text
    assert "Interrupted: ends at the next safe point" in text
    assert "cancelled (interrupted)" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor is back
    assert "printed by the job\r\n" in text
    left = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in text.split("\n")]
    moving = [line for line in left if "━" in line.rsplit("\r", 1)[-1]]
    assert moving == []  # of the moving line nothing stays


def test_prints_of_the_job_stay_on_their_own_stream(root):
    import subprocess

    code = SCRIPT.replace("1000", "30")
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "printed by the job\n"
    assert "finished in" in done.stderr


def test_a_job_of_unknown_length_shows_no_bar():
    line = Line(replace(RUNNING, progress=Progress(500, None, "documents", {}, 10.0))).text(100)
    assert "━" not in line.plain
    assert "500 documents" in line.plain
