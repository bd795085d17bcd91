"""That Jupyter finds the extension where the package is installed, and finds nothing wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_jupyter_finds_the_extension_and_says_that_it_is_in_order() -> None:
    # As `jupyter server extension list`, without what compiles a grammar for seconds.
    code = (
        "import sys; sys.modules['rfc3987_syntax'] = None;"
        "from jupyter_server.extension.serverextension import main; main()"
    )
    words = [sys.executable, "-c", code, "list"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = (done.stdout + done.stderr).splitlines()
    told = [line for line in lines if "theseus.lab" in line]
    assert any("enabled" in line for line in told), told
    assert any("OK" in line for line in told), told
