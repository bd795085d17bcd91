"""Checkpoints: written aside by orbax, visible by one rename, the manifest last."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from theseus.errors import not_installed
from theseus.training.manifest import (
    MANIFEST,
    VERSION,
    CheckpointError,
    complete_steps,
    read_manifest,
)

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

__all__ = ["CheckpointError", "Checkpoints", "check_installed"]


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
    keep_every
        Checkpoints at a multiple of this step are never removed; None: all may be.

    With several processes all of them call the same methods with the same steps; the first one
    decides what is visible.
    """

    def __init__(self, folder: Path, *, keep_last: int = 2, keep_every: int | None = None) -> None:
        self.folder = folder
        self.keep_last = keep_last
        self.keep_every = keep_every
        self._saving: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._orbax: ocp.StandardCheckpointer | None = None

    def steps(self) -> list[int]:
        """Return the steps of the complete checkpoints, oldest first."""
        return complete_steps(self.folder)

    def manifest(self, step: int) -> dict[str, Any]:
        """Return what was written about a checkpoint.

        Raises
        ------
        CheckpointError
            When it was written by a later version of the format.
        """
        return read_manifest(self.folder / str(step))

    def save(self, step: int, state: Any, **facts: Any) -> None:
        """Begin to save `state` (a pytree of arrays) as the checkpoint of `step`.

        Returns once the arrays have been copied: they may then be overwritten. An error of the
        background part is raised by the next call of `save` or `wait`.
        """
        self.wait()
        if step in self.steps():
            return
        partial = self.folder / f".partial-{step}"
        if jax.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
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
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what went wrong in the background since the last call, if anything did."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def clear_leftovers(self) -> None:
        """Remove what a process that was killed left half written or half removed."""
        if jax.process_index() == 0:
            for leftover in (*self.folder.glob(".partial-*"), *self.folder.glob(".removed-*")):
                shutil.rmtree(leftover, ignore_errors=True)

    def restore(self, step: int, like: Any) -> Any:
        """Return the state of a checkpoint, in the shapes and shardings of `like` (abstract).

        Raises
        ------
        CheckpointError
            Listing each leaf that is missing, left over, or of another shape or dtype.
        """
        differences = self.differences(step, like)
        if differences:
            told = "\n".join(f"  {line}" for line in differences.values())
            msg = f"{self.folder / str(step)} was saved from another model or optimizer:\n{told}"
            raise CheckpointError(msg)
        return self._checkpointer().restore(self.folder.absolute() / str(step) / "state", like)

    def restore_fitting(self, step: int, initial: Any) -> Any:
        """Return `initial` (a pytree of arrays) with every leaf that fits taken from a checkpoint.

        What the checkpoint lacks, and what has another shape or dtype there, stays as it is
        (`differences` lists these). The checkpoint is read whole into main memory.
        """
        import orbax.checkpoint as ocp

        other = self.differences(step, initial)
        saved = ocp.PyTreeCheckpointer().restore(self.folder.absolute() / str(step) / "state")
        values = {_path(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(saved)}

        def chosen(path: Any, leaf: Any) -> Any:
            name = _path(path)
            if name in other:
                return leaf
            return jax.device_put(values[name], leaf.sharding)

        return jax.tree_util.tree_map_with_path(chosen, initial)

    def differences(self, step: int, like: Any) -> dict[str, str]:
        """Return path → what differs, for each leaf that is not the same here and in a checkpoint."""
        saved = {leaf["path"]: leaf for leaf in self.manifest(step)["leaves"]}
        wanted = {leaf["path"]: leaf for leaf in _leaves(like)}
        found = {}
        for path in sorted(saved.keys() | wanted.keys()):
            if path not in wanted:
                found[path] = f"{path}: only in the checkpoint"
            elif path not in saved:
                found[path] = f"{path}: not in the checkpoint"
            elif _shape(saved[path]) != _shape(wanted[path]):
                there, here = _shape(saved[path]), _shape(wanted[path])
                found[path] = f"{path}: {there} in the checkpoint, {here} here"
        return found

    def _checkpointer(self) -> ocp.StandardCheckpointer:
        # Imported at the first save or restore: a second of start-up that the first step spares.
        if self._orbax is None:
            import orbax.checkpoint as ocp

            self._orbax = ocp.StandardCheckpointer()
        return self._orbax

    def _finish(self, step: int, partial: Path, manifest: dict[str, Any]) -> None:
        try:
            self._checkpointer().wait_until_finished()  # on the first process: of all processes
            if jax.process_index() != 0:
                return
            with (partial / MANIFEST).open("w") as file:
                json.dump(manifest, file)
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(partial)
            partial.rename(self.folder / str(step))
            _sync_folder(self.folder)
            self._remove_old()
        except BaseException as error:  # noqa: BLE001 - raised where the run can act on it
            self._failure = self._failed(step, error)

    def _remove_old(self) -> None:
        for step in self.steps()[: -self.keep_last]:
            if self.keep_every is None or step % self.keep_every:
                # Renamed first: a folder that is half removed must not be listed.
                leaving = self.folder / f".removed-{step}"
                (self.folder / str(step)).rename(leaving)
                shutil.rmtree(leaving, ignore_errors=True)

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
            "path": _path(path),
            "shape": list(leaf.shape),
            "dtype": str(leaf.dtype),
        }
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _shape(leaf: dict[str, Any]) -> str:
    return f"{leaf['dtype']}[{','.join(map(str, leaf['shape']))}]"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
