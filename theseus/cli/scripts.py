"""`--import script.py`: a script becomes a module, so that its classes register."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

from theseus.code import mark_script
from theseus.errors import UserError, did_you_mean


class ScriptError(UserError):
    """A script given by `--import` cannot be run."""


def import_script(path: Path) -> None:
    """Run a script as a module; its `if __name__ == "__main__":` part is left out.

    As with `python script.py`, what lies beside it can be imported. A script that is imported again
    in the same process is run again: it may have been edited.

    Raises
    ------
    ScriptError
        When there is no such file or running it fails; the message ends with the script's own
        lines of the traceback.
    """
    path = path.expanduser().absolute()
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")]
        msg = f"--import: there is no file {path}{did_you_mean(path.name, beside)}"
        raise ScriptError(msg)
    if str(path.parent) not in sys.path:
        sys.path.insert(_after_the_library(), str(path.parent))
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = f"--import: {path} is not a Python script"
        raise ScriptError(msg)
    module = importlib.util.module_from_spec(spec)
    mark_script(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        msg = f"--import: {path.name} failed\n{_own_lines(error, path)}"
        raise ScriptError(msg) from error


def _module_name(path: Path) -> str:
    """Return the script's own name when it is free, so that worker processes find it too."""
    known = sys.modules.get(path.stem)
    if known is not None:
        same = getattr(known, "__file__", None) == str(path)
        return path.stem if same else f"{path.stem}__imported"
    try:
        found = importlib.util.find_spec(path.stem) if path.stem.isidentifier() else None
    except (ImportError, ValueError):
        found = None
    same = found is not None and found.origin == str(path)
    return path.stem if same else f"{path.stem}__imported"


def _after_the_library() -> int:
    """Return the place before installed packages: a script's `json.py` must not hide Python's."""
    places = [i for i, entry in enumerate(sys.path) if "-packages" in entry]
    return min(places, default=len(sys.path))


def _own_lines(error: BaseException, path: Path) -> str:
    """Return the error with the frames from the script on, without ours above it."""
    frames = list(traceback.extract_tb(error.__traceback__))
    first = next((i for i, frame in enumerate(frames) if frame.filename == str(path)), len(frames))
    lines = traceback.format_list(frames[first:]) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()
