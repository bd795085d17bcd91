"""`notebooks/run.py`: progress, results, errors and interrupts of an executed notebook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

pytestmark = pytest.mark.slow


def write(path: Path, *cells: nbformat.NotebookNode) -> Path:
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def start(repository: Path, notebook: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(repository / "notebooks/run.py"), str(notebook), "--to", "out"],
        cwd=notebook.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # `Popen` in a session without a terminal may inherit an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_a_notebook_runs_here_and_its_results_are_printed(repository: Path, tmp_path: Path) -> None:
    notebook = write(
        tmp_path / "good one.ipynb",
        new_markdown_cell("# A title"),
        new_code_cell("import sys\nprint(sys.executable)"),
        new_code_cell("x = 1.5\nprint('step 1\\rstep 2')\nx", metadata={"tags": ["losses"]}),
        new_code_cell("print('def f(): …')", metadata={"tags": ["sample"]}),
    )
    before = notebook.read_bytes()
    process = start(repository, notebook)
    printed, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert notebook.read_bytes() == before
    assert "good one.ipynb: 3 cells" in printed
    assert "[ 2/3] x = 1.5" in printed
    assert "\nlosses\nstep 2\n1.5\n" in printed
    assert "\nsample\ndef f(): …\n" in printed
    executed = nbformat.read(tmp_path / "out/good one.ipynb", as_version=4)
    assert executed.cells[1].outputs[0].text.strip() == sys.executable


def test_a_failing_cell_ends_it_and_shows_why(repository: Path, tmp_path: Path) -> None:
    notebook = write(
        tmp_path / "bad.ipynb",
        new_code_cell("print('before')"),
        new_code_cell("1 / 0"),
        new_code_cell("print('after')"),
    )
    process = start(repository, notebook)
    printed, _ = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "cell 2 of 3 failed" in printed
    assert "ZeroDivisionError: division by zero" in printed
    assert "\x1b" not in printed
    executed = nbformat.read(tmp_path / "out/bad.ipynb", as_version=4)
    assert executed.cells[1].outputs[0].ename == "ZeroDivisionError"
    assert executed.cells[2].outputs == []


def test_ctrl_c_reaches_the_running_cell_which_ends_in_order(
    repository: Path, tmp_path: Path
) -> None:
    cell = """
from pathlib import Path
import time
try:
    Path("begun").touch()
    time.sleep(60)
finally:
    Path("tidied").touch()
"""
    notebook = write(tmp_path / "long.ipynb", new_code_cell(cell))
    process = start(repository, notebook)
    while not (tmp_path / "out/begun").exists():
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    assert (tmp_path / "out/tidied").exists()
    assert "KeyboardInterrupt" in printed
