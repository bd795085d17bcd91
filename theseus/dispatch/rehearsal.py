"""What a submission would send, where to, and how it would be prepared; no host is asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theseus.combobulation import Combobulation
from theseus.dispatch.bundle import LIMIT, PROJECT, Bundle, gather, size_text
from theseus.dispatch.environment import plan
from theseus.dispatch.identity import Identified, identify_run
from theseus.dispatch.inventory import Host, Inventory, load_inventory
from theseus.dispatch.queued import queued_text
from theseus.dispatch.registry import Registry
from theseus.dispatch.secrets import SHOWN
from theseus.dispatch.shipping import Shipment
from theseus.dispatch.submission import Later
from theseus.errors import UserError
from theseus.runs import names
from theseus.runs.claim import group_path

_SHOWN = 8
_QUEUED = {
    "slurm": "the script for sbatch (partition and GRES are chosen when the cluster is asked)",
    "volcano": "the Volcano job",
}


@dataclass(frozen=True, repr=False)
class Rehearsal:
    """A submission that is not made.

    Attributes
    ----------
    hosts
        Those that would be asked, in order.
    known
        What is known here of the same run, in one line; empty when it would be new.
    queued
        Host → what its queue would be given, without secrets.
    """

    identified: Identified
    bundle: Bundle
    hosts: tuple[Host, ...]
    known: str
    queued: Mapping[str, str]

    @property
    def id(self) -> str:
        """The id that the run would have."""
        return names.run_id(self.identified.base)

    @property
    def folder(self) -> str:
        """Its folder, below the root of the cluster."""
        identity = self.identified.spec.identity
        return f"{group_path(identity)}/{names.path_part(identity.name)}-{self.id}"

    def plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        bundle = self.bundle
        return {
            "id": self.id,
            "folder": self.folder,
            "known": self.known or None,
            "recipe": self.identified.facts,
            "resources": self.identified.spec.resources.to_dict(),
            "bundle": {
                "digest": bundle.digest,
                "size": bundle.size,
                "commit": bundle.commit,
                "dirty": bundle.dirty,
                "notes": list(bundle.notes),
                "files": [one.path for one in bundle.files],
            },
            "hosts": [self._host(host) for host in self.hosts],
        }

    def _host(self, host: Host) -> dict[str, Any]:
        return {
            "name": host.name,
            "type": host.type,
            "root": host.cluster.root,
            "environment": self._prepared(host),
            "env": shown_environment(host),
            "queued": self.queued.get(host.name),
        }

    def _prepared(self, host: Host) -> str:
        if host.python:
            return f"python {host.python}"
        asked = self.identified.spec.resources
        chips = bool(asked.gpus) or any(name != "cpu" for name in asked.chips)
        try:
            made = plan(self.bundle, host.uv_groups, host=host.name, chips=chips, python=None)
        except UserError as error:
            return f"cannot be prepared: {error}"
        sync = "uv venv" if made.sync is None else shlex.join(["uv", "sync", *made.sync])
        if made.requirements:
            sync += f", uv pip install {shlex.join(made.requirements)}"
        return sync

    def __str__(self) -> str:
        spec, bundle = self.identified.spec, self.bundle
        lines = [str(spec), "", f"run {self.id}, in {self.folder}"]
        lines += [self.known] if self.known else []
        lines += ["", f"would be sent: {bundle}"]
        largest = [one for one in bundle.largest(1000) if one.path.startswith(f"{PROJECT}/")][
            :_SHOWN
        ]
        width = max((len(size_text(one.size)) for one in largest), default=0)
        lines += [
            f"  {size_text(one.size):>{width}}  {one.path.removeprefix(f'{PROJECT}/')}"
            for one in largest
        ]
        lines += ["", "would be asked, in this order:"]
        for host in self.hosts:
            lines.append(f"  {host.name} ({host.type}), root {host.cluster.root}")
            lines.append(f"    {self._prepared(host)}")
            env = shown_environment(host)
            if env:
                lines.append(
                    f"    env {' '.join(f'{name}={value}' for name, value in env.items())}"
                )
        for host in self.hosts:
            if text := self.queued.get(host.name):
                lines += ["", f"{host.name}: {_QUEUED[host.type]}", *indented(text)]
        return "\n".join(lines)

    __repr__ = __str__


def indented(text: str) -> list[str]:
    """Return the lines of a text, set off from what is said around them."""
    return [f"  {line}".rstrip() for line in text.rstrip("\n").split("\n")]


def shown_environment(host: Host) -> Mapping[str, str]:
    """Return the environment of runs there, as it may be shown."""
    return {
        name: shlex.quote(value) if isinstance(value, str) else SHOWN
        for name, value in host.environment.items()
    }


def rehearse(
    spec: Combobulation,
    *,
    inventory: Inventory | str | Path | None = None,
    hosts: Sequence[str] | None = None,
    code: str | Path | None = None,
    root: str | Path | None = None,
    fresh: bool = False,
    limit: int = LIMIT,
) -> Rehearsal:
    """Return what submitting the recipe would send; see `theseus.dispatch.submit`."""
    known = (
        inventory
        if isinstance(inventory, Inventory)
        else load_inventory(
            None if inventory is None else Path(inventory),
            root=None if root is None else Path(root),
        )
    )
    chosen = [known.host(name) for name in (hosts or known.priority)]
    chosen = [host for host in chosen if _may_take(spec, host)]
    by_value = spec.job.travelling is not None
    early = by_value or spec.job.path is None or code is not None
    gathering = (
        Later(gather, Path(code or Path.cwd()), limit=limit, private=known.private)
        if early
        else None
    )
    identified = identify_run(spec)
    gathering = gathering or Later(
        gather, identified.source or Path.cwd(), limit=limit, private=known.private
    )
    registry = Registry()
    again = registry.of_base(identified.base)
    told = "" if again is None else f"the same run is known here: {again.state} on {again.host}"
    bundle = gathering.result()
    shipment = Shipment(identified, bundle, known, registry, again, fresh, lambda _: None)
    queued = {host.name: text for host in chosen if (text := _queued(shipment, host))}
    return Rehearsal(identified, bundle, tuple(chosen), told, queued)


def _queued(shipment: Shipment, host: Host) -> str:
    try:
        return queued_text(shipment, host)
    except (
        UserError
    ) as error:  # a wrong group, a value that cannot be written: said, as it would be
        return f"cannot be written: {error}"


def _may_take(spec: Combobulation, host: Host) -> bool:
    asked = spec.resources
    wanted = not asked.clusters or host.cluster.name in asked.clusters
    return wanted and host.cluster.name not in asked.avoid
