"""`configure` and `run`: a recipe to a file, and a recipe from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from theseus import sizing
from theseus.cli.call import CallError, WorkError, WorkStopped
from theseus.cli.options import Asked
from theseus.combobulation import Combobulation
from theseus.config import override
from theseus.errors import UserError
from theseus.job import Job, Recorder, StopRequested
from theseus.quick import QuickJob
from theseus.runs import open_run


def configured(
    job: str, name: str, project: str, group: str, assignments: Sequence[str], asked: Asked
) -> Combobulation:
    """Return the recipe of a job with these values and resources."""
    recipe = QuickJob(Path.cwd()).build(job, name, project, group)
    override(recipe.config, assignments)
    return asked.applied(recipe.spec())


def write(spec: Combobulation, file: Path, *, force: bool) -> str:
    """Write a recipe to a file and say so; another recipe is not replaced unasked."""
    if file.exists() and not force:
        try:
            same = Combobulation.load(file) == spec
        except UserError:
            same = False
        if same:
            return f"{file} says this already"
        msg = f"{file} exists and says something else; --force replaces it"
        raise CallError(msg)
    spec.save(file)
    needs = sizing.told(spec)
    return f"wrote {file}\n{spec}" + (f"\n{needs}" if needs else "")


def run(
    file: Path,
    root: Path,
    assignments: Sequence[str],
    *,
    name: str,
    project: str | None,
    group: str | None,
    fresh: bool,
    as_json: bool,
) -> str:
    """Run the recipe in a file here; return what is to be printed about it."""
    recipe = Combobulation.load(file).named(name, project, group).quick(root)
    override(recipe.config, assignments)
    opened = []

    @contextmanager
    def noting(job: Job, *, fresh: bool) -> Iterator[Recorder]:
        with open_run(job, fresh=fresh) as recorder:
            opened.append(recorder.run)
            yield recorder

    try:
        done = recipe.create(open_run=noting)(fresh=fresh)
    except UserError as error:
        if not opened:
            raise  # refused before anything was begun: the call was wrong
        stopped = isinstance(error, StopRequested)
        raise (WorkStopped if stopped else WorkError)(str(error)) from error
    if not as_json:
        return ""
    return json.dumps({"id": done.id, "state": done.state, "folder": str(done.folder)})
