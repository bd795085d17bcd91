"""The documentation follows the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_reference_pages_are_up_to_date(repository: Path) -> None:
    # In a process of its own: other tests register jobs of theirs.
    result = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
