"""What each step of `theseus hosts test` does: the way of any run, taken by a tiny job."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from theseus.dispatch import remote
from theseus.dispatch.bundle import gather, size_text
from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.identity import identify_run
from theseus.dispatch.inventory import Host, Inventory
from theseus.dispatch.providers.base import PROVIDERS, Placement
from theseus.dispatch.reaching import reach
from theseus.dispatch.registry import Registry
from theseus.dispatch.remote import RemoteError
from theseus.dispatch.shipping import Chosen, Shipment, Shipping, look_around
from theseus.dispatch.trial import Name
from theseus.dispatch.worker.trial_job import RESULT, Trial
from theseus.errors import UserError
from theseus.hardware.resources import Resources
from theseus.quick import QuickJob

_PATIENCE = 600.0  # seconds that the tiny job may wait and work


class TrialError(UserError):
    """A step of the way did not come to what it should."""


@dataclass
class _Way:
    """What the steps hand on to each other."""

    host: Host
    inventory: Inventory
    tell: Callable[[str], None]
    registry: Registry = field(default_factory=Registry)
    placement: Placement | None = None
    shipping: Shipping | None = None
    run: DispatchedRun | None = None

    @property
    def wanted(self) -> Resources:
        chip = next((name for name in self.host.chips if name != "cpu"), None)
        return Resources(chips=(chip,), gpus=1) if chip else Resources(gpus=0)

    def reach(self) -> str:
        answer = reach(self.host).run("uname -srm")
        return answer.text.strip()

    def folders(self) -> str:
        transport = reach(self.host)
        folders = remote.folders_of(self.host, transport)
        answer = transport.run(
            'for place; do mkdir -p "$place" && [ -w "$place" ] || exit 1; done', folders.root,
            folders.work, *filter(None, [folders.log]),
        )  # fmt: skip
        if answer.status != 0:
            raise RemoteError(f"host '{self.host.name}': {answer.complaint or 'not writable'}")
        return folders.root

    def ask(self) -> str:
        verdict = PROVIDERS[self.host.type].probe(
            self.host, reach(self.host), self.wanted, self.inventory
        )
        if verdict.placement is None:
            raise TrialError(verdict.reason)
        self.placement = verdict.placement
        return verdict.reason

    def send(self) -> str:
        assert self.placement is not None
        recipe = QuickJob("/nowhere").build(Trial, f"hosts test {int(time.time() * 1000)}")
        spec = replace(recipe.spec(), resources=self.wanted)
        bundle = gather(Path("/"), own=True)  # nothing of the user's
        shipment = Shipment(
            identify_run(spec), bundle, self.inventory, self.registry, None, True, self.tell
        )
        self.shipping = look_around(shipment, self.host, self.placement)
        self.shipping.send()
        return f"{len(bundle.files)} files, {size_text(bundle.size)}"

    def prepare(self) -> str:
        assert self.shipping is not None
        self.shipping.prepare()
        return self.shipping.python

    def launch(self) -> str:
        assert self.shipping is not None
        ready = replace(self.shipping.found, bundle=True, environment=True)
        launched = replace(self.shipping, found=ready).launch(Chosen(0, 1, None))
        self.run = launched
        return f"run {launched.id}"

    def work(self) -> str:
        assert self.run is not None
        state = self.run.wait(_PATIENCE)
        if state != "finished":
            lines = "\n".join(str(self.run.logs()).splitlines()[-15:])
            raise TrialError(f"the tiny job is {self.run.look()}\n{lines}")
        return ""

    def log(self) -> str:
        assert self.run is not None
        said = [line for line in str(self.run.logs()).splitlines() if "the tiny job ran" in line]
        if not said:
            raise TrialError(f"the log has not what the tiny job printed: {self.run.folder}/log")
        return said[0]

    def fetch(self) -> str:
        assert self.run is not None
        with tempfile.TemporaryDirectory(prefix="theseus-") as folder:
            self.run.fetch(folder)
            result = Path(folder, "results", RESULT)
            if not result.is_file():
                raise TrialError(f"{self.run.folder}/results/{RESULT} is not there")
            found = json.loads(result.read_text("utf-8"))
        return f"{len(found.get('devices', []))} device(s)"

    def clean(self) -> str:
        run = self.run
        if run is None:
            return ""
        run.cancel()
        reach(self.host).run(
            'case $1 in */runs/*/*/hosts-test-*) rm -rf -- "$1" ;; esac', run.folder
        )
        self.registry.path(run.id).unlink(missing_ok=True)
        return ""


def actions(
    host: Host, inventory: Inventory, tell: Callable[[str], None]
) -> Mapping[Name, Callable[[], str]]:
    """Return what each step does, for `theseus.dispatch.trial.try_out`."""
    way = _Way(host, inventory, tell)
    return {
        "reach": way.reach,
        "folders": way.folders,
        "ask": way.ask,
        "send": way.send,
        "prepare": way.prepare,
        "launch": way.launch,
        "run": way.work,
        "log": way.log,
        "fetch": way.fetch,
        "clean": way.clean,
    }


__all__ = ["TrialError", "actions"]
