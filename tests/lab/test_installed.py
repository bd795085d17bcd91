"""That Jupyter finds the extension where the package is installed, and what loading it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_jupyter_finds_the_extension_and_says_that_it_is_in_order() -> None:
    words = [sys.executable, "-m", "jupyter", "server", "extension", "list"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = (done.stdout + done.stderr).splitlines()
    told = [line for line in lines if "theseus.lab" in line]
    assert any("enabled" in line for line in told), told
    assert any("OK" in line for line in told), told
