"""From a decision to a started run: what is missing on the host is sent, and the run is launched once.

Every step looks first and does only what is not done yet, so that a submission that broke off
anywhere is finished by submitting again.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

import theseus
from theseus.dispatch import remote
from theseus.dispatch.bundle import OWN, PROJECT, Bundle, size_text
from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.environment import Plan, plan
from theseus.dispatch.identity import Identified
from theseus.dispatch.inventory import Host, Inventory
from theseus.dispatch.providers.base import (
    PROVIDERS,
    Handle,
    Launch,
    LaunchError,
    NoRoomError,
    Placement,
)
from theseus.dispatch.reaching import reach
from theseus.dispatch.registry import ENDED, Entry, Registry
from theseus.dispatch.remote import Folders, Found, FoundRun, RemoteError
from theseus.dispatch.secrets import redacted, revealed, secrets_in
from theseus.dispatch.transport import Progress, Transport
from theseus.dispatch.worker.order import FILE, Order
from theseus.runs import files, names, provenance
from theseus.runs.claim import group_path

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Shipment:
    """What is submitted.

    Attributes
    ----------
    again
        What is known here of an earlier submission of the same thing.
    fresh
        Whether another run is wanted although there is one.
    """

    identified: Identified
    bundle: Bundle
    inventory: Inventory
    registry: Registry
    again: Entry | None
    fresh: bool
    tell: Tell
    progress: Progress | None = None


@dataclass(frozen=True)
class Chosen:
    """Which run it is going to be, and which launch of it."""

    fresh: int
    attempt: int
    existing: FoundRun | None


def ship(shipment: Shipment, host: Host, placement: Placement) -> DispatchedRun:
    """Start the run on a host, or find it there.

    Raises
    ------
    NoRoomError
        When the chips were taken meanwhile: decide again.
    UserError
        When something there is not as it must be; submitting again goes on from there.
    """
    shipping = look_around(shipment, host, placement)
    return shipping.launch(shipping.choose())


def look_around(shipment: Shipment, host: Host, placement: Placement) -> Shipping:
    """Ask the host what is there already; return what can be done from there."""
    transport = reach(host)
    folders = remote.folders_of(host, transport)
    environment = environment_of(shipment, host, placement)
    identity = shipment.identified.spec.identity
    found = remote.look(
        host,
        transport,
        folders,
        bundle=shipment.bundle.digest,
        environment=environment.key if environment else "",
        group=group_path(identity),
        part=names.path_part(identity.name),
    )
    _check_python(shipment, host, found)
    return Shipping(shipment, host, placement, transport, folders, environment, found)


def environment_of(shipment: Shipment, host: Host, placement: Placement) -> Plan | None:
    """Return how the environment is made there; None where a prepared Python is named."""
    if host.python:
        return None
    by_value = shipment.identified.spec.job.travelling
    return plan(
        shipment.bundle,
        host.uv_groups,
        host=host.name,
        chips=placement.gpus_per_node > 0,
        python=None if by_value is None else by_value.python,
    )


def _check_python(shipment: Shipment, host: Host, found: Found) -> None:
    if not host.python:
        return
    if found.complaint and not host.setup:  # `setup` may be what makes it work
        raise RemoteError(f"host '{host.name}': python: {host.python}: {found.complaint}")
    by_value = shipment.identified.spec.job.travelling
    if by_value is not None and found.python and found.python != by_value.python:
        msg = (
            f"host '{host.name}': the job's class was defined in a notebook or script with Python "
            f"{by_value.python}, and {host.python} is Python {found.python}. Name a Python "
            f"{by_value.python} there, or put the class into a module of your project"
        )
        raise RemoteError(msg)


@dataclass(frozen=True)
class Shipping:
    """A shipment on its way to one host, and what was found there."""

    shipment: Shipment
    host: Host
    placement: Placement
    transport: Transport
    folders: Folders
    environment: Plan | None
    found: Found

    # Which run, and which attempt

    def choose(self) -> Chosen | DispatchedRun:
        """Return what to launch, or the run when it is at work or has finished."""
        shipment, base = self.shipment, self.shipment.identified.base
        there = [one for one in self.found.runs if one.record.get("base") == base]
        newest = max(there, key=_fresh, default=None)
        again = shipment.again
        if shipment.fresh:
            numbers = [_fresh(one) for one in there] + ([again.fresh] if again else [])
            return Chosen(max(numbers, default=-1) + 1, 1, None)
        if newest is None or (again is not None and _fresh(newest) < again.fresh):
            attempt = 1 if again is None else again.attempt + (1 if again.ended else 0)
            return Chosen(again.fresh if again else 0, attempt, None)
        number, state = _fresh(newest), str(newest.status.get("state"))
        attempt = _attempt(newest)
        if state == "finished":
            return self._adopted(newest, {})
        known_end = again is not None and again.ended and again.fresh == number
        if state in ENDED or known_end:
            return Chosen(number, max(attempt, again.attempt if again else 0) + 1, newest)
        if again is None:
            # Submitted from another machine: ask whoever runs it, by launching what is launched.
            handle = self._start(newest.folder, attempt, self.placement)
            run = self._adopted(newest, handle.values)
            if not run.settle().ended:
                return run
            return Chosen(number, attempt + 1, newest)
        return Chosen(number, attempt, newest)

    def _adopted(self, there: FoundRun, handle: Mapping[str, Any]) -> DispatchedRun:
        entry = self._entry(there.folder, _fresh(there), _attempt(there))
        state = str(there.status.get("state") or "queued")
        entry = replace(entry, handle=dict(handle), state=state, status=dict(there.status))
        self.shipment.registry.put(entry)
        return DispatchedRun(entry, self.shipment.registry)

    # Launching

    def launch(self, chosen: Chosen | DispatchedRun) -> DispatchedRun:
        """Send what is missing and start it."""
        if isinstance(chosen, DispatchedRun):
            return chosen
        shipment = self.shipment
        folder = self.folder(chosen.fresh)
        entry = self._entry(folder, chosen.fresh, chosen.attempt)
        registry = shipment.registry
        before = registry.get(entry.id)
        registry.put(replace(entry, state="preparing", seen=time.time()))
        launching = False
        try:
            with self._held(entry.id) as placement:
                self.send()
                self.prepare()
                self._write(chosen, folder)
                entry = registry.put(replace(entry, state="queued", seen=time.time()))
                launching = True
                handle = self._start(folder, chosen.attempt, placement)
        except BaseException as error:
            if not launching or isinstance(error, NoRoomError):
                _restore(registry, entry, before)
            elif isinstance(error, LaunchError):
                registry.change(entry.id, reason=str(error))
            raise
        entry = registry.change(entry.id, handle=dict(handle.values))
        return DispatchedRun(entry, registry)

    def _held(self, run_id: str) -> AbstractContextManager[Placement]:
        """Keep the chips from others for as long as sending and preparing takes."""
        if self.found.bundle and (self.environment is None or self.found.environment):
            return nullcontext(self.placement)  # what the launch claims, it claims at once
        provider = PROVIDERS[self.host.type]
        return provider.hold(self.host, self.transport, self.placement, run_id)

    def send(self) -> None:
        """Bring the bundle to the host, unless it is there."""
        shipment, bundle, base = self.shipment, self.shipment.bundle, self.folders.base
        if self.found.bundle:
            return
        shipment.tell(
            f"sending {len(bundle.files)} files ({size_text(bundle.size)}) to {self.host.name}"
        )
        with tempfile.TemporaryDirectory(prefix="theseus-") as temporary:
            archive = Path(temporary) / "bundle.tar.gz"
            bundle.write(archive)
            there = f"{base}/incoming/{bundle.digest}.tar.gz"
            self.transport.put(archive, there, progress=shipment.progress)
        remote.unpack(self.host, self.transport, self.folders, bundle.digest, there)

    def prepare(self) -> None:
        """Make the environment on the host, unless it is there."""
        shipment, bundle = self.shipment, self.shipment.bundle
        if self.environment is None or self.found.environment:
            return
        shipment.tell(f"preparing the environment on {self.host.name}")
        remote.prepare(
            self.host,
            self.transport,
            self.folders,
            self.environment,
            bundle=bundle.digest,
            folder=bundle.folder,
            version=bundle.version,
            tell=lambda line: shipment.tell(redacted(line, secrets_in(self.host.environment))),
        )

    def _write(self, chosen: Chosen, folder: str) -> None:
        spec = self.shipment.identified.spec
        now = time.time()
        status: dict[str, Any] = {"attempt": 0, "heartbeat": 0}
        if chosen.existing is not None:
            status |= chosen.existing.status
        status |= {"state": "queued", "since": now, "reason": None, "exit": None}
        status |= {"pids": [], "gpus": [], "time": now}
        launch = {"attempt": chosen.attempt, "host": self.host.name, "time": now}
        order = Order(
            run=names.run_id(self.shipment.identified.digest(chosen.fresh)),
            provider=self.host.type,
            root=self.folders.root,
            recipe=_plain(spec.serialize()),
            env=self._env(),
            chip=self.placement.chip,
            chips=self.placement.gpus_per_node,
            nodes=self.placement.nodes,
        )
        config = OmegaConf.to_yaml(OmegaConf.create(dict(self.shipment.identified.config)))
        contents = {
            "run.json": files.encode(self._record(chosen.fresh)) + "\n",
            "config.yaml": config,
            "status.json": files.encode(status) + "\n",
            "launch.json": files.encode(launch) + "\n",
            FILE: order.text(),
            "start.sh": resources("theseus.dispatch.worker")
            .joinpath("start.sh")
            .read_text("utf-8"),
        }
        if self.host.setup:
            contents["setup.sh"] = self.host.setup.rstrip("\n") + "\n"
        remote.write_run(
            self.host,
            self.transport,
            self.folders,
            group=group_path(spec.identity),
            name=folder.rpartition("/")[2],
            contents={name: text.encode() for name, text in contents.items()},
            use=self.found.use,
        )

    def _env(self) -> dict[str, str]:
        """Return the run's environment with its secrets, for the one file that holds it."""
        asked = {name: os.environ[name] for name in self.shipment.identified.variables}
        return {**asked, **revealed(self.host.environment)}

    def _start(self, folder: str, attempt: int, placement: Placement) -> Handle:
        launch = self.launch_of(folder, attempt, placement)
        return PROVIDERS[self.host.type].launch(self.host, self.transport, launch)

    def launch_of(self, folder: str, attempt: int, placement: Placement) -> Launch:
        """Return what the provider is given to start the run."""
        spec = self.shipment.identified.spec
        return Launch(
            run_id=folder.rpartition("-")[2],
            name=spec.identity.name,
            folder=folder,
            work=self._work(),
            command=("/bin/sh", f"{folder}/start.sh", folder, self.python, *self._paths()),
            placement=placement,
            cpus=spec.resources.cpus,
            memory=spec.resources.memory,
            log=f"{folder}/log",
            attempt=attempt,
        )

    # Where things are

    def folder(self, fresh: int) -> str:
        """Return the folder of the run."""
        identity = self.shipment.identified.spec.identity
        short = names.run_id(self.shipment.identified.digest(fresh))
        part = names.path_part(identity.name)
        return f"{self.folders.root}/{group_path(identity)}/{part}-{short}"

    def _place(self) -> str:
        assert self.environment is not None
        return f"{self.folders.base}/environments/{self.environment.key}-{self.found.machine}"

    def _work(self) -> str:
        """Return the working folder: the project as it is there."""
        bundle = self.shipment.bundle
        if self.environment is not None and self.environment.tied:
            return _joined(self._place(), "tree", bundle.folder)
        top = PROJECT if any(one.path.startswith(f"{PROJECT}/") for one in bundle.files) else ""
        return _joined(self.folders.bundle(bundle.digest), top, bundle.folder)

    @property
    def python(self) -> str:
        """The Python that runs the worker."""
        if self.environment is None:
            python = self.host.python or "python3"
            return self.transport.resolve(python) if python.startswith(("~", "$")) else python
        return f"{self._place()}/venv/bin/python"

    def _paths(self) -> tuple[str, str]:
        """Return where modules are found, as one text, and where their bytecode is kept."""
        bundle = self.shipment.bundle
        paths = [_joined(self._work(), part) for part in bundle.manifest.import_paths]
        if bundle.own:
            paths.append(_joined(self.folders.bundle(bundle.digest), OWN))
        return ":".join(paths), f"{self.folders.base}/pycache"

    # Records

    def _record(self, fresh: int) -> dict[str, Any]:
        identified, bundle = self.shipment.identified, self.shipment.bundle
        digest = identified.digest(fresh)
        return {
            "id": names.run_id(digest),
            **identified.facts,
            "created": time.time(),
            "digest": digest,
            "base": identified.base,
            "fresh": fresh,
            "class": identified.spec.job.path or identified.spec.job.name,
            "by": provenance.user(),
            "host": self.host.name,
            "provider": self.host.type,
            "cluster": self.host.cluster.name,
            "resources": identified.spec.resources.to_dict(),
            "bundle": bundle.digest,
            "commit": bundle.commit,
            "dirty": bundle.dirty,
            "version": theseus.__version__,
        }

    def _entry(self, folder: str, fresh: int, attempt: int) -> Entry:
        identified, placement = self.shipment.identified, self.placement
        path = self.shipment.inventory.path
        chips = placement.gpus_per_node * placement.nodes
        return Entry(
            id=folder.rpartition("-")[2],
            name=identified.facts["name"],
            project=identified.facts["project"],
            group=identified.facts["group"],
            job=identified.facts["job"],
            base=identified.base,
            host=self.host.name,
            cluster=self.host.cluster.name,
            kind=self.host.type,
            folder=folder,
            work=self._work(),
            fresh=fresh,
            inventory=None if path is None else str(path.absolute()),
            attempt=attempt,
            nodes=placement.nodes,
            chips=f"{chips} × {placement.chip}" if chips else "cpu",
            submitted=time.time(),
        )


def _restore(registry: Registry, entry: Entry, before: Entry | None) -> None:
    """Put an entry back as it was before a submission that came to nothing."""
    if before is not None:
        registry.put(before)
    else:
        registry.path(entry.id).unlink(missing_ok=True)


def _fresh(run: FoundRun) -> int:
    number = run.record.get("fresh")
    return number if isinstance(number, int) else 0


def _attempt(run: FoundRun) -> int:
    number = run.launch.get("attempt")
    return number if isinstance(number, int) and number > 0 else 1


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _plain(spec: Any) -> Mapping[str, Any]:
    plain: Any = OmegaConf.to_container(spec, resolve=False)
    return json.loads(json.dumps(plain, default=str))  # type: ignore[no-any-return] # a mapping stays one
