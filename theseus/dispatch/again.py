"""The recipe of a run that was submitted, put together again from its records."""

from __future__ import annotations

import json
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from theseus import registry
from theseus.code import JobReference
from theseus.combobulation import Combobulation, identify
from theseus.dispatch.dispatched import DispatchedRun, DispatchError
from theseus.dispatch.transport import Transport
from theseus.hardware.resources import Resources


def recipe_of(run: DispatchedRun) -> Combobulation:
    """Return the recipe that a run was made from.

    The job must be known here: a class that travelled with its recipe is not kept with the run.

    Raises
    ------
    DispatchError
        When the job is not known here, or the records cannot be read.
    """
    entry = run.entry
    if entry.job not in registry.keys("job"):
        msg = (
            f"'{entry.name}' ({entry.id}) runs '{entry.job}', which is no job that is known here: "
            "submit it again from where it is defined"
        )
        raise DispatchError(msg)
    _, transport = run._reach()
    try:
        record: Any = json.loads(_read(transport, f"{entry.folder}/run.json"))
        values: Any = OmegaConf.to_container(
            OmegaConf.create(_read(transport, f"{entry.folder}/config.yaml"))
        )
        resources = Resources.from_dict(record.get("resources") or {})
    except (AttributeError, ValueError, OmegaConfBaseException) as error:
        msg = f"the records of '{entry.name}' ({entry.id}) cannot be read: {error}"
        raise DispatchError(msg) from error
    return Combobulation(
        JobReference.of(registry.find("job", entry.job)),
        identify(entry.name, entry.project, entry.group),
        values,
        resources,
    )


def _read(transport: Transport, path: str) -> str:
    answer = transport.run('cat "$1"', path, timeout=30)
    if answer.status != 0:
        msg = f"host '{transport.name}': {path} cannot be read: {answer.complaint}"
        raise DispatchError(msg)
    return answer.out.decode("utf-8", "replace")
