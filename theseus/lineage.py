"""Checkpoints under a root: found, gone on from, branched off.

found = q.find("train-gpt")      # the newest first
found[0].resume().create()()     # the same run goes on
q = found[0].branch("colder")    # another run that starts from this state
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from theseus import config as configuration
from theseus import registry
from theseus._summary import aligned
from theseus.code import JobReference
from theseus.errors import UserError
from theseus.runs.run import Run, list_runs
from theseus.training.manifest import complete_steps, read_manifest

if TYPE_CHECKING:
    from theseus.quick import QuickJob

START = "training.start_from"


class LineageError(UserError):
    """A checkpoint cannot be gone on from in the way that was asked for."""


@dataclass(frozen=True, repr=False)
class SavedState:
    """One checkpoint of one run.

    Attributes
    ----------
    run
        The run that saved it.
    step
        The step after which it was saved.
    """

    run: Run
    step: int

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.run.checkpoints_folder / str(self.step)

    @property
    def facts(self) -> dict[str, Any]:
        """What was written about it: `tokens`, `loss`, `best` and so on."""
        return read_manifest(self.folder)

    @property
    def root(self) -> Path:
        """The root folder of the run."""
        return self.run.folder.parents[3]

    def resume(self) -> QuickJob:
        """Return the recipe of the same run: `create()()` takes it on from this checkpoint.

        Raises
        ------
        LineageError
            When the run has gone on to a later checkpoint, or its code has changed since: then
            only `branch` leaves what there is as it is.
        """
        newest = complete_steps(self.run.checkpoints_folder)[-1]
        if newest != self.step:
            msg = (
                f"'{self.run.name}' has gone on to step {newest:,}; to start again from step "
                f"{self.step:,} beside it, use .branch(name)"
            )
            raise LineageError(msg)
        recipe = self._recipe(self.run.name)
        if not _is_same_run(recipe, self.run):
            msg = (
                f"the code of {self.run.job} has changed since '{self.run.name}' was made, so it "
                "would be another run; .branch(name) starts one from this checkpoint"
            )
            raise LineageError(msg)
        return recipe

    def branch(self, name: str, *, partial: bool = False) -> QuickJob:
        """Return the recipe of a new run that starts from this state, to be changed and created.

        Parameters
        ----------
        name
            What the new run is called.
        partial
            Whether the new model may lack what is in the checkpoint, or have more: what has
            another shape starts anew.
        """
        recipe = self._recipe(name)
        if START not in {record.key for record in configuration.describe(recipe.config)}:
            msg = f"{self.run.job} cannot start from a checkpoint: it has no key {START}"
            raise LineageError(msg)
        configuration.load(
            recipe.config, {START: str(self.folder), "training.start_partial": partial}
        )
        return recipe

    def _recipe(self, name: str) -> QuickJob:
        from theseus.quick import QuickJob

        recipe = QuickJob(self.root).build(
            _job_class(self.run), name, self.run.project, self.run.group
        )
        configuration.load(recipe.config, dict(self.run.config))
        return recipe

    def _row(self) -> tuple[str, ...]:
        facts = self.facts
        best, loss = facts.get("best"), facts.get("loss")
        saved = datetime.fromtimestamp((self.folder / "manifest.json").stat().st_mtime, UTC)
        return (
            self.run.name,
            self.run.id,
            f"{self.step:,}",
            f"{facts.get('tokens') or 0:,}",
            "" if loss is None else f"{loss:.4f}",
            "" if not best else f"{best['value']:.4f} at {best['step']:,}",
            f"{saved.astimezone():%Y-%m-%d %H:%M}",
        )

    def __repr__(self) -> str:
        return f"<step {self.step:,} of '{self.run.name}' ({self.run.id})>"


COLUMNS = ("run", "id", "step", "tokens", "loss", "best validation", "saved")


class SavedStates(Sequence[SavedState]):
    """Checkpoints, the newest run first and in it the latest step; shows itself as a table."""

    def __init__(self, states: Sequence[SavedState]) -> None:
        self._states = tuple(states)

    @overload
    def __getitem__(self, index: int) -> SavedState: ...

    @overload
    def __getitem__(self, index: slice) -> SavedStates: ...

    def __getitem__(self, index: int | slice) -> SavedState | SavedStates:
        if isinstance(index, slice):
            return SavedStates(self._states[index])
        if not self._states:
            msg = "no checkpoint was found: there is none to take"
            raise LineageError(msg)
        return self._states[index]

    def __iter__(self) -> Iterator[SavedState]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __repr__(self) -> str:
        if not self._states:
            return "no checkpoints"
        return "\n".join(aligned([COLUMNS, *(state._row() for state in self._states)]))

    def _repr_html_(self) -> str:
        if not self._states:
            return "<div>no checkpoints</div>"
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in COLUMNS)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in state._row()) + "</tr>"
            for state in self._states
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def find(
    root: Path,
    name: str | None = None,
    *,
    project: str | None = None,
    group: str | None = None,
    job: str | None = None,
) -> SavedStates:
    """Return the complete checkpoints under a root, the newest run first.

    Parameters
    ----------
    name, project, group, job
        Only those of runs that are called exactly so; None: all.
    """
    wanted = {"name": name, "project": project, "group": group, "job": job}
    asked = {what: value for what, value in wanted.items() if value is not None}
    return SavedStates(
        [
            SavedState(run, step)
            for run in list_runs(root)
            if all(run.record.get(what) == value for what, value in asked.items())
            for step in reversed(complete_steps(run.checkpoints_folder))
        ]
    )


def _job_class(run: Run) -> Any:
    """Return the class that made a run: what is registered here, or what its path leads to."""
    if any(entry.key == run.job for entry in registry.entries("job")):
        return registry.find("job", run.job)
    return JobReference(None, str(run.record["class"])).load()


def _is_same_run(recipe: QuickJob, run: Run) -> bool:
    from theseus.runs.claim import run_identity

    base, _, _ = run_identity(recipe.create())
    return base == run.record.get("base")
