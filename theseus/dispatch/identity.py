"""Which run a recipe is: worked out here, without running code that came with a file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from theseus.combobulation import Combobulation
from theseus.config import check_complete, to_plain
from theseus.errors import UserError
from theseus.runs import names, provenance
from theseus.runs.claim import run_identity

_VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class Identified:
    """A recipe, and what makes a run of it the same run.

    Attributes
    ----------
    spec
        The recipe with every key.
    config
        The configuration, resolved, without secrets: what is written down.
    facts
        Job, code, name, project and group.
    base
        The digest of all that.
    source
        The folder of the job's own code, when it is a module of a project.
    variables
        Environment variables of this machine that the configuration asks for.
    """

    spec: Combobulation
    config: Mapping[str, Any]
    facts: Mapping[str, str]
    base: str
    source: Path | None
    variables: tuple[str, ...]

    def digest(self, fresh: int) -> str:
        """Return the digest of one of the runs of this."""
        return self.base if not fresh else names.run_digest(self.facts, self.config, fresh=fresh)


def identify_run(spec: Combobulation) -> Identified:
    """Return which run a recipe is.

    A class that travels inside the recipe stays packed: its digest came with it, and its values are
    taken as they are. Any other is imported, so that mistakes in the configuration are told here.

    Raises
    ------
    UserError
        When the job is not known here, or its configuration is not complete.
    """
    if spec.job.travelling is not None:
        return _by_value(spec)
    recipe = spec.quick(Path.cwd())
    check_complete(recipe.config)
    base, config, facts = run_identity(recipe.create())
    whole = replace(spec, values=to_plain(recipe.config))
    source = provenance.source_folder(recipe.job_class) if spec.job.path else None
    return Identified(whole, config, facts, base, source, _variables(spec.values))


def _by_value(spec: Combobulation) -> Identified:
    assert spec.job.travelling is not None
    missing = [key for key, value in _leaves(spec.values) if value == "???"]
    if missing:
        msg = f"these keys have no value yet: {', '.join(missing)}"
        raise UserError(msg)
    raw = dict(spec.values)
    try:
        resolved: Any = OmegaConf.to_container(OmegaConf.create(raw), resolve=True)
    except OmegaConfBaseException:  # resolved where it runs, perhaps
        resolved = raw
    config = provenance.without_secrets(raw, resolved)
    facts = {
        "job": spec.job.name,
        "code": spec.job.travelling.digest,
        "name": spec.identity.name,
        "project": spec.identity.project,
        "group": spec.identity.group,
    }
    base = names.run_digest(facts, config)
    return Identified(spec, config, facts, base, None, _variables(spec.values))


def _variables(values: Mapping[str, Any]) -> tuple[str, ...]:
    texts = [value for _, value in _leaves(values) if isinstance(value, str)]
    found = {name for text in texts for name in _VARIABLE.findall(text)}
    return tuple(sorted(found & os.environ.keys()))


def _leaves(value: Any, key: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        inner = [
            _leaves(item, f"{key}.{name}" if key else str(name)) for name, item in value.items()
        ]
    elif isinstance(value, list | tuple):
        inner = [_leaves(item, f"{key}.{number}") for number, item in enumerate(value)]
    else:
        return [(key, value)]
    return [leaf for leaves in inner for leaf in leaves]
