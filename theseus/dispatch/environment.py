"""Which environment a run needs on a host: what is prepared there once, and by which words."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass

from theseus.dispatch.bundle import Bundle
from theseus.dispatch.manifest import PACKAGE, own_extras, own_requirements, pins
from theseus.errors import UserError, did_you_mean

HARDWARE = ("cpu", "cuda12", "cuda13", "tpu")
_FULL = frozenset({"run", "all", *HARDWARE})


class GroupError(UserError):
    """A host's `uv_groups` names a group that neither the project nor theseus has."""


@dataclass(frozen=True)
class Plan:
    """How an environment is made with `uv`.

    Attributes
    ----------
    key
        What it depends on: two runs with the same key share it.
    sync
        The arguments of `uv sync`; None when there is no project to sync, and a bare environment is
        made instead.
    requirements
        What is installed into it afterwards.
    constraints
        Versions for those, where no lock has chosen them.
    python
        The version of Python, when the run cannot do with another.
    tied
        Whether it holds code of the bundle, and so a copy of it.
    whole
        Whether the project's files are needed to make it, not its metadata alone.
    """

    key: str
    sync: tuple[str, ...] | None
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    python: str | None
    tied: bool
    whole: bool


def groups_for(groups: Iterable[str], *, chips: bool) -> tuple[str, ...]:
    """Return a host's groups for a request: without chips, `cpu` in place of GPU flavours."""
    if chips:
        return tuple(groups)
    replaced = ("cpu" if group in HARDWARE else group for group in groups)
    return tuple(dict.fromkeys(replaced))


def plan(
    bundle: Bundle, groups: Iterable[str], *, host: str, chips: bool, python: str | None
) -> Plan:
    """Return how to make the environment of a bundle on a host.

    Parameters
    ----------
    groups
        The host's `uv_groups`.
    host
        Its name, for messages.
    chips
        Whether the request has any.
    python
        The version that code sent by value needs; None for whatever the project asks for.

    Raises
    ------
    GroupError
        When a group is known neither to the project nor to theseus.
    """
    manifest = bundle.manifest
    wanted = groups_for(groups, chips=chips)
    theirs = own_extras()
    sync: list[str] = []
    extras: list[str] = []
    for group in wanted:
        if manifest.present and group in manifest.groups:
            sync += ["--group", group]
        elif manifest.present and group in manifest.extras:
            sync += ["--extra", group]
        elif group in theirs:
            extras.append(group)
        else:
            known = [*manifest.groups, *manifest.extras, *theirs]
            msg = (
                f"host '{host}': uv_groups: '{group}' is neither a dependency group nor an extra "
                f"of the project or of {PACKAGE}{did_you_mean(group, known)}"
            )
            raise GroupError(msg)
    if not manifest.is_theseus and not _FULL & {*extras, *wanted}:
        extras.append("run")
    brought = manifest.is_theseus or manifest.needs_theseus
    requirements = own_requirements(extras)
    if brought:
        core = set(own_requirements())
        requirements = [one for one in requirements if one not in core]
    if manifest.present:
        if manifest.lock:
            sync.insert(0, "--frozen")
        if "dev" not in wanted:
            sync.append("--no-dev")
        if not manifest.tied:
            sync += ["--no-install-project", "--no-install-workspace"]
        if bundle.own and manifest.needs_theseus:
            sync += ["--no-install-package", PACKAGE]
    constraints = [] if manifest.present and manifest.lock else pins(requirements)
    python = python or manifest.python
    facts = [
        hashlib.sha256(manifest.lock or manifest.text).hexdigest(),
        sync if manifest.present else None,
        requirements,
        constraints,
        python,
        bundle.digest if manifest.tied else None,
    ]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]
    return Plan(
        key,
        tuple(sync) if manifest.present else None,
        tuple(requirements),
        tuple(constraints),
        python,
        manifest.tied,
        manifest.tied or (manifest.dynamic and not manifest.lock),
    )


def this_python() -> str:
    """Return the version of Python that code sent by value needs: `3.11`."""
    return ".".join(platform.python_version_tuple()[:2])
