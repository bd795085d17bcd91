"""The Python sources of the running interpreter: real text on every machine, no download."""

from __future__ import annotations

import hashlib
import platform
import sysconfig
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from theseus.data.datasets.base import PretrainingDataset
from theseus.errors import UserError

# Tests are repetitive, and Debian ships them apart; idlelib and turtledemo come with Tk or not at
# all; encodings and pydoc_data are generated tables, a fifth of all text, in which a small model
# would get lost; the others hold other people's code or compiled files.
_LEFT_OUT = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "encodings",
        "idle_test",
        "idlelib",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)
# Written when Python was built: these hold paths of the machine that built it.
_GENERATED = ("_sysconfigdata_", "_sysconfig_vars_", "config-")


class StdLib(PretrainingDataset):
    """One document per source file of the standard library, in the order of their paths."""

    def __init__(self) -> None:
        self._root = Path(sysconfig.get_path("stdlib"))
        self._paths = sorted(
            path.relative_to(self._root).as_posix()
            for path in self._root.rglob("*.py")
            if _belongs(path.relative_to(self._root))
        )
        if not self._paths:
            msg = (
                f"no Python sources in {self._root}: this interpreter comes without its standard "
                "library's sources; use another one, or the dataset 'text'"
            )
            raise UserError(msg)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> str:
        with tokenize.open(self._root / self._paths[index]) as file:
            return file.read()

    def source(self) -> Mapping[str, Any]:
        """Return the interpreter's version and a digest of the paths and sizes."""
        digest = hashlib.sha256()
        for path in self._paths:
            digest.update(f"{path} {(self._root / path).stat().st_size}\n".encode())
        return {
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "files": len(self._paths),
            "sha256": digest.hexdigest(),
        }


def _belongs(path: Path) -> bool:
    return _LEFT_OUT.isdisjoint(path.parts) and not any(
        part.startswith(_GENERATED) for part in path.parts
    )
