"""Which checkpoints there are, and what is written about each; reads small files, knows no JAX.

`checkpoints/<step>/` holds `state/` (orbax) and `manifest.json`. A folder without a manifest does
not count, whatever its name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from theseus.errors import UserError

MANIFEST = "manifest.json"
VERSION = 1


class CheckpointError(UserError):
    """A checkpoint could not be written or does not fit."""


def complete_steps(folder: Path) -> list[int]:
    """Return the steps of the complete checkpoints in a folder, oldest first."""
    found = folder.glob(f"*/{MANIFEST}")
    return sorted(int(path.parent.name) for path in found if path.parent.name.isdigit())


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """Return what was written about a checkpoint, given its folder.

    Raises
    ------
    CheckpointError
        When it was written by a later version of the format.
    """
    found: dict[str, Any] = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    if found.get("v") != VERSION:
        msg = f"{checkpoint}: unknown checkpoint version {found.get('v')!r}"
        raise CheckpointError(msg)
    return found
