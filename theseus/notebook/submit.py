"""The submit panel: which hosts could take the recipe and why, what would be sent, and sending it.

Whatever takes time (asking hosts, sending) is done on threads: a click returns at once, and the
kernel stays free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from uuid import uuid4

import traitlets

from theseus.combobulation import Combobulation
from theseus.dispatch.inventory import Inventory, load_inventory
from theseus.dispatch.registry import remember_hosts
from theseus.dispatch.showing import source_of
from theseus.dispatch.solve import solve
from theseus.dispatch.verdicts import HostRow, asks, host_rows
from theseus.errors import UserError
from theseus.notebook import front, threads
from theseus.notebook.adding import Adding, Steps
from theseus.notebook.desk import Desk
from theseus.notebook.record import Record
from theseus.notebook.run_card import STYLES, CardFront
from theseus.notebook.widget import Widget, live

_LINES = 8  # of what is told while it is sent

Spec = Callable[[], Combobulation]


class Panel(TypedDict):
    """All that the panel shows."""

    name: str
    project: str
    group: str
    job: str
    asks: str
    inventory: str
    hosts: list[HostRow]
    probing: bool
    probed: float | None
    trouble: str
    host: str
    busy: str
    lines: list[str]
    ok: bool
    said: str
    rehearsal: str
    code: str
    adding: NotRequired[Adding | None]


class SubmitPanel(Widget):
    """Hosts with their verdicts, a dry run, and the card of the run that was submitted.

    Parameters
    ----------
    spec
        Returns the recipe as it is when it is asked for: what was typed meanwhile counts.
    root
        The folder of data and runs on this machine, for the host `local`.
    inventory
        The file of hosts; None is the usual one.
    """

    _esm = front.esm("submit")
    _css = front.css(*STYLES, "submit")

    key = traitlets.Unicode().tag(sync=True)
    panel = traitlets.Dict().tag(sync=True)
    card = traitlets.Dict(None, allow_none=True).tag(sync=True)

    def __init__(
        self, spec: Spec, *, root: Path | None = None, inventory: Path | None = None
    ) -> None:
        self._spec, self._root, self._inventory = spec, root, inventory
        self._desk: Desk | None = None
        self._record = Record()
        self._steps: Steps | None = None
        self._again = self._closed = False
        self._changing = threading.RLock()
        self._now: Panel = self._first()
        super().__init__(key=uuid4().hex, panel=dict(self._now))

    def _first(self) -> Panel:
        spec = self._spec()
        identity = spec.identity
        return Panel(
            name=identity.name, project=identity.project, group=identity.group, job=spec.job.name,
            asks=asks(spec), inventory="", hosts=[], probing=False, probed=None, trouble="",
            host="", busy="", lines=[], ok=True, said="", rehearsal="", code="", adding=None,
        )  # fmt: skip

    # The static forms

    def text(self) -> str:
        """Return what to write to send it."""
        return f"to send it: {self._code('')}"

    def html(self) -> str:
        """Return nothing: what matters of a panel is the run, which has its own output."""
        return ""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if not live():
            return  # the recipe is shown already, and nobody can press a button
        data, metadata = self._repr_mimebundle_()
        shown: Any = display  # IPython leaves it without types
        shown(data, metadata=metadata, raw=True)
        self._record.reserve()  # where the run will stay in the saved notebook

    # What the view says

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take a message of the view."""
        what = message.get("type")
        if self._desk is not None and self._desk.receive(message):
            return
        if what in {"hello", "probe"}:
            self.refresh()
        elif what == "submit":
            self._submit(message)
        elif what == "dry":
            self._work("looking at what would be sent …", lambda: self._rehearse(message))
        elif what == "add":
            self._add(message)

    def refresh(self) -> None:
        """Ask the hosts, on a thread; while they are asked, once more after that."""
        with self._changing:
            if self._now["probing"]:
                self._again = True  # what is asked for may have changed meanwhile
                return
            self._again = False
            self._change(probing=True, trouble="")
        threads.start(self._probe, name="theseus probe")

    def _probe(self) -> None:
        try:
            spec = self._spec()
            known = self._known()
            self._change(asks=asks(spec), hosts=host_rows(known, None, self._now["hosts"]))
            from theseus.dispatch.reaching import reach

            solution = solve(known, spec.resources, connect=reach)
            remember_hosts(solution.verdicts)
            self._change(
                hosts=host_rows(known, solution),
                inventory=str(known.path or ""),
                probing=False,
                probed=time.time(),
            )
        except UserError as error:
            self._change(probing=False, trouble=str(error))
        except Exception as error:
            self._change(probing=False, trouble=f"{type(error).__name__}: {error}")
            raise
        if self._again and not self._closed:
            self.refresh()

    def _known(self) -> Inventory:
        return load_inventory(self._inventory, root=self._root)

    # Sending

    def _named(self, message: Mapping[str, Any]) -> Combobulation:
        spec = self._spec()
        given = [str(message.get(part) or "").strip() for part in ("name", "project", "group")]
        name, project, group = given
        with self._changing:
            self._change(name=name, project=project, group=group, host=_host(message) or "")
        return spec.named(name, project or None, group or None)

    def _submit(self, message: Mapping[str, Any]) -> None:
        def work() -> dict[str, Any]:
            from theseus.dispatch.submission import submit

            host = _host(message)
            spec = self._named(message)
            run = submit(
                spec,
                inventory=self._known(),
                hosts=[host] if host else None,
                fresh=bool(message.get("fresh")),
                tell=self._tell,
            )
            if self._desk is not None:
                self._desk.close()
            desk = Desk(source_of(run, spec), CardFront(self), self._record)
            self.card = dict(desk.card())
            self._desk = desk
            desk.receive({"type": "hello"})
            return {"said": f"{run.id} on {run.host}", "lines": [], "rehearsal": ""}

        self._work("sending …", work)

    def _rehearse(self, message: Mapping[str, Any]) -> dict[str, Any]:
        from theseus.dispatch.rehearsal import rehearse

        host = _host(message)
        told = rehearse(
            self._named(message), inventory=self._known(), hosts=[host] if host else None
        )
        return {"rehearsal": str(told), "said": "", "code": self._code(host or "")}

    def _code(self, host: str) -> str:
        chosen = f"hosts=[{host!r}]" if host else ""
        return f"run = q.spec().submit({chosen})"

    def _tell(self, line: str) -> None:
        with self._changing:
            self._change(lines=[*self._now["lines"], line][-_LINES:])

    def _add(self, message: Mapping[str, Any]) -> None:
        step = message.get("step")
        if step == "close":
            self._steps = None
            self._change(adding=None, said="")
            return

        def work() -> dict[str, Any]:
            if self._steps is None or step == "begin":
                self._steps = Steps(self._inventory)
            steps = self._steps
            if step == "look":
                adding = steps.look(str(message.get("alias") or ""))
            elif step == "propose":
                folders = message.get("folders")
                named = {str(k): str(v) for k, v in folders.items()} if folders else {}
                adding = steps.propose(str(message.get("name") or ""), named)
            elif step == "write":
                adding = steps.write()
            else:
                adding = steps.begin()
            return {"adding": adding, "said": ""}

        def after() -> None:
            if step == "write":
                self.refresh()

        self._work(_STEPS.get(str(step), "…"), work, after)

    def _work(
        self,
        doing: str,
        work: Callable[[], dict[str, Any]],
        after: Callable[[], None] | None = None,
    ) -> None:
        """Do one thing at a time on a thread, and say what became of it where it was asked for."""
        with self._changing:
            if self._now["busy"]:
                return  # a second click on what is under way
            self._change(busy=doing, said="", ok=True, lines=[])

        def carry() -> None:
            try:
                self._change(**work(), ok=True, busy="")
            except UserError as error:
                self._change(busy="", ok=False, said=str(error))
            except Exception as error:  # noqa: BLE001 - told where it was asked for
                self._change(busy="", ok=False, said=f"{type(error).__name__}: {error}")
            if after is not None:
                after()

        threads.start(carry, name="theseus panel")

    def _change(self, **changes: Any) -> None:
        with self._changing:
            self._now = {**self._now, **changes}  # type: ignore[typeddict-item]
            self.panel = dict(self._now)

    def close(self) -> None:
        """End the threads, and the widget."""
        self._closed = True
        if self._desk is not None:
            self._desk.close()
        super().close()


_STEPS = {"begin": "…", "look": "looking at it …", "propose": "…", "write": "writing …"}


def _host(message: Mapping[str, Any]) -> str | None:
    host = message.get("host")
    return host if isinstance(host, str) and host else None
