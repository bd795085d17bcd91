"""Run cells in a real IPython shell of its own process, and say what each did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Did:
    """What a cell did: what it printed, what it displayed by MIME type, its error's class."""

    out: str
    shown: list[dict[str, Any]]
    error: str | None

    @property
    def text(self) -> str:
        """All that a reader of plain text sees."""
        return self.out + "\n".join(one.get("text/plain", "") for one in self.shown)


def run_cells(cells: list[str], folder: Path) -> list[Did]:
    """Return what each cell did."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "THESEUS_PROGRESS": "none", "NO_COLOR": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Did(**one) for one in json.loads(done.stdout.splitlines()[-1])]


def _main() -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance(colors="nocolor")
    told = []
    for cell in json.load(sys.stdin):
        with capture_output() as captured:
            result = shell.run_cell(cell, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        told.append(
            {
                "out": captured.stdout + captured.stderr,
                "shown": [dict(one.data) for one in captured.outputs],
                "error": type(error).__name__ if error else None,
            }
        )
    print(json.dumps(told))


if __name__ == "__main__":
    _main()
