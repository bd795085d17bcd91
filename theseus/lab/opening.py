"""A saved recipe → the notebook cell that makes it again. Nothing of the file is run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theseus import snippets
from theseus._words import quoted

if TYPE_CHECKING:
    from theseus.combobulation import Combobulation
    from theseus.config import KeyRecord

LARGEST = 8 * 1024 * 1024  # bytes of a recipe; the class that may travel in it is some kilobytes
_PATIENCE = 20.0  # seconds in which another process may say the keys of the job


def cell_of_file(path: Path, beside: Path) -> str:
    """Return the cell for the recipe in a file.

    Parameters
    ----------
    beside
        The folder of the notebook that the cell is for.

    Raises
    ------
    UserError
        When the file is no recipe.
    """
    from theseus._job_keys import keys_of_job
    from theseus.combobulation import Combobulation

    spec = Combobulation.load(path)
    key = spec.job.key
    labels = (spec.identity.name, spec.identity.project, spec.identity.group)
    one_line = not any("\n" in label or "\r" in label for label in labels)
    if key is None or spec.job.path is not None or not one_line:
        # The class is the user's own: the cell would not know it by a key.
        return _python(os.path.relpath(path, beside))
    return cell_of(spec, key, keys_of_job(key, wait=_PATIENCE))


def cell_of(spec: Combobulation, job: str, keys: Sequence[KeyRecord]) -> str:
    """Return the `%%theseus` cell of a recipe; `keys` are those of its job, where they are known."""
    head = " ".join(map(quoted, ["%%theseus", job, spec.identity.name, *_options(spec)]))
    notes = "".join(f"# not taken over: {' '.join(note.split())}\n" for note in spec.notes)
    return f"{head}\n{notes}{snippets.body(_changed(spec.values, keys))}".rstrip("\n") + "\n"


def _options(spec: Combobulation) -> Iterator[str]:
    identity, asked = spec.identity, spec.resources
    if identity.project != "general":
        yield from ("--project", identity.project)
    if identity.group != "default":
        yield from ("--group", identity.group)
    for option, names in (
        ("--chip", asked.chips), ("--cluster", asked.clusters), ("--avoid", asked.avoid),
    ):  # fmt: skip
        for name in names:
            yield from (option, name)
    for option, count in (("--gpus", asked.gpus), ("--cpus", asked.cpus)):
        if count is not None:
            yield from (option, str(count))
    if asked.memory is not None:
        yield from ("--memory", _size(asked.memory))
    if asked.nodes != 1:
        yield from ("--nodes", str(asked.nodes))
    if asked.sharding.tp != 1:
        yield from ("--tp", str(asked.sharding.tp))
    if asked.sharding.fsdp:
        yield "--fsdp"
    if asked.sharding.zero:
        yield "--zero"


def _size(count: int) -> str:
    for power, unit in ((4, "T"), (3, "G"), (2, "M")):
        if count % 1024**power == 0:
            return f"{count // 1024**power}{unit}"
    return str(count)


def _changed(values: Mapping[str, Any], keys: Sequence[KeyRecord]) -> dict[str, Any]:
    """Return what differs from the defaults, by dotted keys; all of it where they are not known."""
    known = {record.key: record.default for record in keys}
    return {
        key: value
        for key, value in _leaves(values, known)
        if value != "???" and (key not in known or known[key] != value)
    }


def _leaves(values: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> Iterator[Any]:
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and key not in known:
            yield from _leaves(value, known, f"{key}.")
        else:
            yield key, value


def _python(path: str) -> str:
    return (
        "from theseus import Combobulation\n\n"
        f"c = Combobulation.load({path!r})\n"
        "c  # to send it: c.submit()\n"
    )
