"""The hardware widget: what a recipe asks for, what of it fits, and where it could run.

w = CombobulationWidget(q)      # or of a Combobulation; one shows itself so
w.value                         # the Combobulation, as chosen
w.observe(print, "value")
"""

from __future__ import annotations

import html
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from theseus import config as configuration
from theseus.combobulation import Combobulation
from theseus.errors import UserError
from theseus.hardware.resources import Resources, parse_size
from theseus.notebook import front, threads
from theseus.notebook import hardware_state as state
from theseus.notebook.estimating import Estimates, question
from theseus.notebook.widget import Widget, live
from theseus.quick import QuickJob
from theseus.sizing import (
    REMAT,
    ROWS,
    NoEstimateError,
    Sizing,
    changes_of,
    is_known_here,
    resources_of,
    with_values,
)

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Inventory

ESTIMATING, ASKING = "estimating…", "asking…"  # the front end knows these words
_RESOURCES = ("chips", "gpus", "nodes", "cpus", "memory", "clusters", "avoid")
_SHARDING = ("tp", "fsdp", "zero")
_KEYS = {"rows": ROWS, "remat": REMAT}


class HardwareError(UserError):
    """A choice that cannot be made, or that is no longer offered."""


class CombobulationWidget(Widget):
    """What a recipe asks of hardware, to be chosen.

    Parameters
    ----------
    spec
        A `Combobulation`, or the `QuickJob` that it is to be of.
    recipe
        The `QuickJob` of the spec: its configuration is followed, and is where rematerialisation
        and the micro-batch are set. Without one the spec has a configuration of its own.
    inventory
        The hosts; None: those of the usual file.

    Attributes
    ----------
    value
        The `Combobulation` as chosen; observable.
    """

    _esm = front.esm("hardware")
    _css = front.css("hardware")

    value = traitlets.Instance(Combobulation)

    asked = traitlets.Dict().tag(sync=True)
    offered = traitlets.Dict().tag(sync=True)
    memory = traitlets.Dict().tag(sync=True)
    ways: Any = traitlets.List().tag(sync=True)
    hosts = traitlets.Dict().tag(sync=True)
    code = traitlets.Dict().tag(sync=True)
    catalogue: Any = traitlets.List().tag(sync=True)

    def __init__(
        self,
        spec: Combobulation | QuickJob,
        *,
        recipe: QuickJob | None = None,
        inventory: Inventory | str | Path | None = None,
    ) -> None:
        if isinstance(spec, QuickJob):
            recipe, spec = spec, spec.spec()
        self._recipe, self._inventory = recipe, inventory
        self._changed: dict[str, Any] = {}
        self._trusting, self._why = False, ""
        self._key: Any = None
        self._known: Inventory | None = None
        self._probing = ""
        self._yaml = False
        self._estimates = Estimates(self._estimated)
        self.sizing = Sizing(spec)
        super().__init__(value=spec, catalogue=state.catalogue())
        self._take(spec)
        self._look_at_hosts()
        if recipe is not None:
            after_each_cell(self.refresh)

    # The two forms

    def text(self) -> str:
        """Return what is asked for, and what it needs where that is known."""
        told = f"\n{self.sizing}" if self.sizing.work else ""
        return f"{self.value}{told}"

    def html(self) -> str:
        """Return the same as static HTML."""
        lines = [] if self.sizing.work is None else self.sizing.lines()
        told = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
        return f"{self.value._repr_html_()}{told}"

    # What the front end asks for

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take one message: `set`, `way`, `probe`, `save`, `yaml`, `estimate`."""
        kind = message.get("type")
        if kind == "set":
            self.choose(**{str(message.get("name")): message.get("value")})
        elif kind == "way":
            self._apply(message)
        elif kind == "probe":
            self.probe()
        elif kind == "save":
            self._save(str(message.get("path") or ""), force=message.get("force") is True)
        elif kind == "yaml":
            self._yaml = message.get("open") is True
            self._show_code()
        elif kind == "estimate":
            self._trusting = True
            self._estimate()
            self._show()

    def choose(self, **chosen: Any) -> None:
        """Choose as the controls do: `chips`, `gpus`, `tp`, `fsdp`, `zero`, `remat`, `rows`, ….

        Raises
        ------
        UserError
            When the model cannot be trained so; nothing is changed then.
        """
        with self.lock:
            asked, values = self.value.resources, {}
            for name, value in chosen.items():
                if name in _SHARDING:
                    asked = replace(asked, sharding=asked.sharding.changed(**{name: value}))
                elif name in _RESOURCES:
                    asked = _with(asked, name, value)
                elif name in _KEYS:
                    values[_KEYS[name]] = value
                else:
                    msg = f"the hardware has no '{name}'"
                    raise HardwareError(msg)
            self._change(asked, values)

    def _apply(self, message: Mapping[str, Any]) -> None:
        shown = {name: message.get(name) for name in ("changes", "gain", "then")}
        offered = state.ways(self.sizing)
        if shown not in offered:
            raise HardwareError("that was offered for other choices than these; look again")
        way = self.sizing.ways[offered.index(shown)]
        self._change(resources_of(self.sizing, way), changes_of(self.sizing.setting, way))

    def _change(self, asked: Resources, values: Mapping[str, Any]) -> None:
        before = self.sizing
        spec = replace(with_values(self.value, values), resources=asked)
        after = Sizing(spec, before.work)
        if after.obstacle and not before.obstacle:
            raise HardwareError(after.obstacle)
        if values and self._recipe is not None:
            configuration.load(self._recipe.config, values)
            spec = replace(self._recipe.spec(), resources=asked)
        self._changed |= values
        self._take(spec)

    # What it shows

    def refresh(self) -> None:
        """Follow the recipe: its configuration, its name, another job."""
        if self._recipe is None or not self._recipe.has_config:
            return
        with self.lock:
            spec = replace(self._recipe.spec(), resources=self.value.resources)
            if spec != self.value:
                known = configuration.changed(self._recipe.config)
                self._changed = {k: v for k, v in self._changed.items() if known.get(k) == v}
                self._take(spec)

    @traitlets.observe("value")
    def _follow(self, change: Any) -> None:
        if change["new"] is not self.sizing.spec:  # set from code
            with self.lock:
                self._take(change["new"])

    def _take(self, spec: Combobulation) -> None:
        self.sizing = Sizing(spec, self.sizing.work)
        self.value = spec
        self._estimate()
        self._show()

    def _estimate(self) -> None:
        """See to it that the workload is that of the recipe, now or in a moment."""
        spec = self.value
        if self._recipe is None and not self._trusting and not is_known_here(spec):
            self._key, self._why = None, "ask"
            self.sizing = Sizing(spec)
            return
        try:
            key, ask = question(spec, self._recipe, trusting=self._trusting)
        except UserError as error:
            self._key, self._why = None, str(error)
            self.sizing = Sizing(spec)
            return
        if key == self._key:
            return
        self._key = key
        known = Estimates.known(key)
        self.sizing = Sizing(spec, known)
        self._why = "" if known else ESTIMATING
        if known is None and live():  # where nobody looks, nothing works on after the cell
            self._estimates.ask(key, ask)

    def _estimated(self, key: Any, work: Any, why: str) -> None:
        with self.lock:
            if key == self._key:  # otherwise another recipe has come meanwhile
                self._why = why
                self.sizing = Sizing(self.value, work)
                self._show()

    def _show(self) -> None:
        with self.hold_sync():
            self.asked = dict(state.asked(self.value))
            self.offered = state.offered(self.sizing)
            self.memory = dict(state.memory(self.sizing, self._why))
            self.ways = state.ways(self.sizing)
            self._show_code()
            self._show_hosts()

    def _show_code(self) -> None:
        self.code = {
            "python": state.python(self.value, self._changed),
            "options": state.command_line(self.value, self._changed),
            "yaml": state.yaml(self.value) if self._yaml else "",
        }

    # Hosts

    def _look_at_hosts(self) -> None:
        from theseus.dispatch.inventory import Inventory, load_inventory

        given = self._inventory
        try:
            if not isinstance(given, Inventory):
                given = load_inventory(None if given is None else Path(given))
            self._known, self._probing = given, ""
        except UserError as error:
            self._known, self._probing = None, str(error)
        self._show_hosts()

    def _show_hosts(self) -> None:
        from theseus.dispatch.candidates import candidates
        from theseus.dispatch.registry import recalled_hosts

        known = self._known
        found = candidates(known, self.value.resources, recalled_hosts()) if known else []
        clusters = sorted({host.cluster.name for host in known.hosts.values()}) if known else []
        self.hosts = {"hosts": state.hosts(found), "status": self._probing, "clusters": clusters}

    def probe(self) -> None:
        """Ask all hosts what is free, on a thread; what they say is kept for everybody."""
        with self.lock:
            if self._probing == ASKING:
                return
            self._look_at_hosts()  # the file may have changed
            if self._known is None:
                return
            self._probing = ASKING
            self._show_hosts()
            work = (self._known, self.value.resources)
            threads.start(self._probe, *work, name="theseus probe")

    def _probe(self, known: Inventory, wanted: Resources) -> None:
        from theseus.dispatch.reaching import reach
        from theseus.dispatch.registry import remember_hosts
        from theseus.dispatch.solve import solve

        why = ""
        try:
            remember_hosts(solve(known, wanted, connect=reach).verdicts)
        except UserError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - told where the hosts are shown
            why = f"{type(error).__name__}: {error}"
        with self.lock:
            self._probing = why
            self._show_hosts()

    # Files

    def _save(self, path: str, *, force: bool) -> None:
        from theseus.cli.call import CallError
        from theseus.cli.recipes import write

        if not path.strip():
            raise HardwareError("say where: a file such as out.yaml")
        file = Path(path.strip()).expanduser()
        try:
            told = write(self.value, file, force=force).splitlines()[0]
        except CallError:
            self.tell({"type": "exists", "path": path})
            return
        self.tell({"type": "saved", "text": told})


def _with(asked: Resources, name: str, value: Any) -> Resources:
    if name in ("chips", "clusters", "avoid"):
        value = tuple(value)
    if name == "memory":
        value = parse_size(value or None)
    return replace(asked, **{name: value})


def after_each_cell(call: Callable[[], None]) -> None:
    """Call a bound method when a cell has ended, for as long as its object lives."""
    import IPython

    shell = IPython.get_ipython()
    if shell is None:
        return
    method = weakref.WeakMethod(call)

    def ended(*_: Any) -> None:
        found = method()
        if found is None:
            shell.events.unregister("post_run_cell", ended)
        else:
            found()

    shell.events.register("post_run_cell", ended)


def bundle(spec: Combobulation) -> Any:
    """Return how a `Combobulation` shows itself in a notebook, with its metadata."""
    return CombobulationWidget(spec)._repr_mimebundle_()


__all__ = ["CombobulationWidget", "HardwareError", "NoEstimateError", "bundle"]
