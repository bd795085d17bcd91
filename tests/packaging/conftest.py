"""The repository as a clone has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tracked_files(repository: Path) -> list[str]:
    """Return the files that git knows and that are there, relative to the top."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={repository}", "ls-files", "-z"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in listed.stdout.split("\0") if name]
    return [name for name in names if (repository / name).is_file()]
