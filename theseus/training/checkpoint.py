"""Checkpoints: written aside by orbax, visible by one rename, the manifest last.

`checkpoints/<step>/` holds `state/` (orbax) and `manifest.json`. A folder without a manifest does
not count, whatever its name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from theseus.errors import UserError, not_installed

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

MANIFEST = "manifest.json"
VERSION = 1


class CheckpointError(UserError):
    """A checkpoint could not be written or does not fit."""


def check_installed() -> None:
    """Refuse to train where checkpoints could not be saved: it would show at the first one."""
    if importlib.util.find_spec("orbax") is None:
        raise not_installed("saving checkpoints", "orbax-checkpoint")


class Checkpoints:
    """The checkpoints of one run, in one folder; saving goes on in the background.

    Parameters
    ----------
    folder
        Where they are.
    keep_last
        How many of the newest are kept; older ones are removed after a newer one is complete.
    """

    def __init__(self, folder: Path, *, keep_last: int = 2) -> None:
        self.folder = folder
        self.keep_last = keep_last
        self._saving: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._orbax: ocp.StandardCheckpointer | None = None

    def steps(self) -> list[int]:
        """Return the steps of the complete checkpoints, oldest first."""
        found = self.folder.glob(f"*/{MANIFEST}")
        return sorted(int(path.parent.name) for path in found if path.parent.name.isdigit())

    def manifest(self, step: int) -> dict[str, Any]:
        """Return what was written about a checkpoint.

        Raises
        ------
        CheckpointError
            When it was written by a later version of the format.
        """
        found: dict[str, Any] = json.loads((self.folder / str(step) / MANIFEST).read_text())
        if found.get("v") != VERSION:
            msg = f"{self.folder / str(step)}: unknown checkpoint version {found.get('v')!r}"
            raise CheckpointError(msg)
        return found

    def save(self, step: int, state: Any, **facts: Any) -> None:
        """Begin to save `state` (a pytree of arrays) as the checkpoint of `step`.

        Returns once the arrays have been copied: they may then be overwritten. An error of the
        background part is raised by the next call of `save` or `wait`.
        """
        self.wait()
        if step in self.steps():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".partial-{step}"
        shutil.rmtree(partial, ignore_errors=True)
        manifest = {"v": VERSION, "step": step, "leaves": _leaves(state), **facts}
        try:
            self._checkpointer().save(partial.absolute() / "state", state)
        except (OSError, ValueError) as error:
            raise self._failed(step, error) from error
        self._saving = threading.Thread(
            target=self._finish, args=(step, partial, manifest), name=f"checkpoint-{step}"
        )
        self._saving.start()

    def wait(self) -> None:
        """Return when nothing is being saved any more.

        Raises
        ------
        CheckpointError
            When the save in the background failed; earlier checkpoints are untouched.
        """
        if self._saving is not None:
            self._saving.join()
            self._saving = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def restore(self, step: int, like: Any) -> Any:
        """Return the state of a checkpoint, in the shapes and shardings of `like` (abstract).

        Raises
        ------
        CheckpointError
            Listing each leaf that is missing, left over, or of another shape or dtype.
        """
        saved = {leaf["path"]: leaf for leaf in self.manifest(step)["leaves"]}
        wanted = {leaf["path"]: leaf for leaf in _leaves(like)}
        differences = [f"  {path}: only in the checkpoint" for path in saved.keys() - wanted.keys()]
        differences += [f"  {path}: not in the checkpoint" for path in wanted.keys() - saved.keys()]
        differences += [
            f"  {path}: {_shape(saved[path])} in the checkpoint, {_shape(wanted[path])} here"
            for path in saved.keys() & wanted.keys()
            if _shape(saved[path]) != _shape(wanted[path])
        ]
        if differences:
            told = "\n".join(sorted(differences))
            msg = f"{self.folder / str(step)} was saved from another model or optimizer:\n{told}"
            raise CheckpointError(msg)
        return self._checkpointer().restore(self.folder.absolute() / str(step) / "state", like)

    def _checkpointer(self) -> ocp.StandardCheckpointer:
        # Imported at the first save or restore: a second of start-up that the first step spares.
        if self._orbax is None:
            import orbax.checkpoint as ocp

            self._orbax = ocp.StandardCheckpointer()
        return self._orbax

    def _finish(self, step: int, partial: Path, manifest: dict[str, Any]) -> None:
        try:
            self._checkpointer().wait_until_finished()
            with (partial / MANIFEST).open("w") as file:
                json.dump(manifest, file)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(self.folder / str(step))
            _sync_folder(self.folder)
            for old in self.steps()[: -self.keep_last]:
                shutil.rmtree(self.folder / str(old))
        except BaseException as error:  # noqa: BLE001 - raised where the run can act on it
            self._failure = self._failed(step, error)

    def _failed(self, step: int, error: BaseException) -> CheckpointError:
        shutil.rmtree(self.folder / f".partial-{step}", ignore_errors=True)
        kept = self.steps()
        told = f"the newest complete one is of step {kept[-1]}" if kept else "there is none yet"
        return CheckpointError(
            f"the checkpoint of step {step} could not be written to {self.folder}: "
            f"{type(error).__name__}: {error}; {told}"
        )


def _leaves(tree: Any) -> list[dict[str, Any]]:
    return [
        {
            "path": jax.tree_util.keystr(path, simple=True, separator="/"),
            "shape": list(leaf.shape),
            "dtype": str(leaf.dtype),
        }
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _shape(leaf: dict[str, Any]) -> str:
    return f"{leaf['dtype']}[{','.join(map(str, leaf['shape']))}]"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
