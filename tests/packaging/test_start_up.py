"""Start-up stays quick: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax",
    "datasets",
    "matplotlib",
    "tokenizers",
    "pandas",
}

LOAD_EXTENSION = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "theseus")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-c", "import theseus"], id="import"),
        pytest.param(["-c", LOAD_EXTENSION], id="load_ext"),
        pytest.param(["-m", "theseus", "--help"], id="help"),
        pytest.param(["-m", "theseus", "jobs"], id="jobs"),
    ],
)
def test_start_up_imports_nothing_heavy(arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
    )
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in lines}
    assert "theseus" in imported
    assert imported & HEAVY == set()
