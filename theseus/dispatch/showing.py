"""A run as its viewers see it: facts to draw, files that grow, and what can be done with it.

A run that was sent away and one in a folder here answer alike. Asking a host takes its time, so it
is done on threads of the source; who draws only looks at what is known.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypedDict

from theseus.combobulation import Combobulation
from theseus.dispatch.dispatched import DispatchedRun, State
from theseus.dispatch.logs import Notice, follow
from theseus.dispatch.registry import Registry
from theseus.errors import UserError
from theseus.runs import Run, words
from theseus.runs.summary import SHAPES, Summary

_LOOK = 1.0  # seconds between looks at a run that works
_RETRY = 5.0  # seconds until a host that did not answer is asked again


class ShownProgress(TypedDict):
    """How far a run is, as text and as a part of the whole."""

    position: str
    fraction: float | None
    remaining: str
    total: float | None


class Facts(TypedDict):
    """What a card shows of a run; plain values, nothing secret."""

    id: str
    name: str
    project: str
    group: str
    job: str
    host: str
    chips: str
    state: str
    shape: str
    headline: str
    reason: str
    starts: str
    elapsed: float | None
    progress: ShownProgress | None
    facts: list[dict[str, str]]
    folder: str
    log: str
    connection: str
    ended: bool
    can: list[str]
    code: str


class Source(Protocol):
    """A run that can be watched."""

    @property
    def id(self) -> str:
        """The run's id."""

    @property
    def name(self) -> str:
        """Its name as the user wrote it."""

    def facts(self) -> Facts:
        """Return what is known now; asks nobody."""

    def summary(self) -> Summary:
        """Return the same for views that print it."""

    def lanes(self) -> Mapping[str, Path]:
        """Return the logs: a name for each, and the file on this machine that grows."""

    def metrics_file(self) -> Path:
        """Return the file on this machine in which the metrics grow."""

    def begin(self, stop: threading.Event) -> None:
        """Keep the files and the facts up to date, on threads, until `stop` is set."""

    def once(self) -> None:
        """Bring the files and the facts up to date, and return."""

    def settled(self) -> bool:
        """Return whether the run has ended and its files are complete here."""


def source_of(run: DispatchedRun | Run, spec: Combobulation | None = None) -> Source:
    """Return a run as something to watch; `spec` is the recipe that it was submitted from."""
    return SentRun(run, spec) if isinstance(run, DispatchedRun) else LocalRun(run)


def find(word: str) -> Source:
    """Return the run that a word means: one of the registry, or the folder of a run."""
    folder = Path(word).expanduser()
    if (folder / "run.json").is_file():
        return LocalRun(Run(folder))
    return SentRun(DispatchedRun.find(word))


def others(but: str, count: int = 12) -> list[dict[str, str]]:
    """Return the newest runs of the registry, to be compared with one."""
    entries = [one for one in Registry().entries() if one.id != but and one.status.get("latest")]
    return [
        {"id": one.id, "name": words.one_line(one.name), "state": one.state}
        for one in entries[:count]
    ]


class LocalRun:
    """A run in a folder of this machine."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.id, self.name = run.id, run.name

    def summary(self) -> Summary:
        """Return the facts as the folder has them."""
        return self.run.summary()

    def facts(self) -> Facts:
        """Return what the folder says now."""
        told = _facts(self.summary(), self.run.project, self.run.group)
        told["log"] = str(self.run.log_path)
        told["code"] = f'from theseus.runs import Run\n\nRun(Path("{self.run.folder}")).plot()'
        return told

    def lanes(self) -> Mapping[str, Path]:
        """Return the logs in the folder."""
        found = sorted(
            self.run.log_path.parent.glob("*.log"), key=lambda path: (len(path.stem), path)
        )
        return {path.stem: path for path in found}

    def metrics_file(self) -> Path:
        """Return the metrics in the folder."""
        return self.run.folder / "metrics.jsonl"

    def begin(self, stop: threading.Event) -> None:
        """Nothing: the files are here."""

    def once(self) -> None:
        """Nothing: the files are here."""

    def settled(self) -> bool:
        """Return whether the run has ended."""
        return self.run.state in {"finished", "failed", "cancelled", "lost"}


class SentRun:
    """A run of the registry: it works elsewhere, and what is here are copies that grow."""

    def __init__(self, run: DispatchedRun, spec: Combobulation | None = None) -> None:
        self.run, self.spec = run, spec
        self.id, self.name = run.id, run.name
        self._copies = Registry().copies(run.id)
        self._state: State | None = None
        self._connection = ""
        self._complete: set[str] = set()

    # What is known

    def summary(self) -> Summary:
        """Return the facts as they were last seen."""
        return self.run.summary()

    def facts(self) -> Facts:
        """Return what was last seen, and how well the host is heard."""
        entry, state = self.run.entry, self._state
        told = _facts(self.summary(), entry.project, entry.group)
        told["chips"] = "" if entry.chips == "cpu" else entry.chips
        if not entry.handle and not entry.ended and entry.state == "queued":
            told |= _as("preparing")
        if entry.state == "queued" and entry.starts:
            told["starts"] = words.moment(entry.starts)
        told["log"] = f"{entry.folder}/log/0.log"
        told["connection"] = self._connection
        if state is not None and state.word == "unknown" and not self._connection:
            seen = f", last seen {words.moment(entry.seen)}" if entry.seen else ""
            told["connection"] = f"{state.reason or 'the host does not answer'}{seen}"
        told["can"] = ["fetch", "resubmit"] if entry.ended else ["cancel", "fetch"]
        told["code"] = (
            f'from theseus.dispatch import DispatchedRun\n\nrun = DispatchedRun.find("{self.id}")\n'
            f"run.state\nprint(run.logs())\n\n# or: %theseus watch {self.id}"
        )
        return told

    def lanes(self) -> Mapping[str, Path]:
        """Return the copies of the logs, one for each node."""
        ranks = range(max(self.run.entry.nodes, 1))
        return {str(rank): self._copies / "log" / f"{rank}.log" for rank in ranks}

    def metrics_file(self) -> Path:
        """Return the copy of the metrics."""
        return self._copies / "metrics" / "metrics.log"

    def settled(self) -> bool:
        """Return whether the run has ended and all of it is here."""
        return self.run.entry.ended and self._complete >= {"log", "metrics"}

    # Keeping up

    def begin(self, stop: threading.Event) -> None:
        """Look at the run, and follow its logs and its metrics, each on a thread."""
        self._complete.clear()
        for work, what in ((self._look, ""), (self._follow, "log"), (self._follow, "metrics")):
            arguments = (stop, what) if what else (stop,)
            name = f"theseus watch {self.id} {what or 'state'}"
            # In a copy of the context, so that what is shown comes under the cell that asked.
            run = contextvars.copy_context().run
            threading.Thread(target=run, args=(work, *arguments), name=name, daemon=True).start()

    def once(self, stop: threading.Event | None = None) -> None:
        """Look at the run and its files once; `stop` ends waiting for who brings them already."""
        self._state = self.run.look()
        for what in ("metrics", "log"):
            try:
                self._bring(what, stop or threading.Event(), once=True)
            except UserError as error:  # what was brought before is shown
                self._connection = str(error)

    def _look(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._state = self.run.look()
            except UserError as error:
                self._connection = str(error)
            if self._state is not None and self._state.ended:
                return
            stop.wait(_LOOK)

    def _follow(self, stop: threading.Event, what: str) -> None:
        while not stop.is_set():
            try:
                self._bring(what, stop, once=self.run.entry.ended)
            except UserError as error:
                self._connection = str(error)
                if self.run.entry.ended and (self._copies / what).exists():
                    self._complete.add(what)  # as far as it was brought before
                    return
                stop.wait(_RETRY)
                continue
            self._complete.add(what)
            return

    def _bring(self, what: str, stop: threading.Event, *, once: bool) -> None:
        folder = self.run.folder
        if what == "log":
            names = {name: f"{folder}/log/{name}.log" for name in self.lanes()}
        else:
            names = {"metrics": f"{folder}/metrics.jsonl"}
        copies = self._copies / what
        since = {name: _size(copies / f"{name}.log") for name in names}
        _, transport = self.run._reach()
        for event in follow(
            transport, names, copies, since=since, stop=stop, once=once,
            ended=lambda: self.run.entry.ended,
        ):  # fmt: skip
            if isinstance(event, Notice) and event.kind in {"lost", "back"}:
                self._connection = event.text if event.kind == "lost" else ""
            elif self._connection:
                self._connection = ""

    # What can be done

    def cancel(self) -> str:
        """End the run; return what is to be said."""
        word = self.run.cancel()
        self._state = None
        return f"{word} on {self.run.host}"

    def fetch(self, to: str, *, checkpoints: bool) -> str:
        """Bring the run's files; return what is to be said."""
        folder = self.run.fetch(Path(to).expanduser() if to else None, checkpoints=checkpoints)
        return f"its files are in {folder.resolve()}"

    def resubmit(self) -> DispatchedRun:
        """Submit the same thing again: the next attempt, or another run of what has finished."""
        from theseus.dispatch.again import recipe_of
        from theseus.dispatch.submission import submit

        entry = self.run.entry
        spec = self.spec or recipe_of(self.run)
        return submit(spec, inventory=entry.inventory, fresh=entry.state == "finished")


def _facts(summary: Summary, project: str, group: str) -> Facts:
    progress = summary.progress
    ended = summary.state in {"finished", "failed", "cancelled", "lost"}
    elapsed = summary.elapsed
    if elapsed is None and summary.since is not None and summary.state == "running":
        elapsed = max(time.time() - summary.since, 0.0)
    return Facts(
        id=summary.id,
        name=words.one_line(summary.name),
        project=words.one_line(project),
        group=words.one_line(group),
        job=words.one_line(summary.job),
        host=words.one_line(summary.host),
        chips="",
        state=summary.state,
        shape=SHAPES.get(summary.state, "•"),
        headline=summary.headline,
        reason=words.clipped(summary.reason or "", 4000),
        starts="",
        elapsed=elapsed,
        progress=None
        if progress is None
        else ShownProgress(
            position=summary.position,
            fraction=progress.fraction,
            remaining=summary.remaining,
            total=progress.total if progress.unit.startswith("step") else None,
        ),
        facts=[
            {"label": one.label, "value": one.value, "detail": one.detail}
            for one in summary.facts()
        ],
        folder=words.one_line(str(summary.folder)),
        log="",
        connection="",
        ended=ended,
        can=[],
        code="",
    )


def _as(state: str) -> Any:
    return {"state": state, "shape": SHAPES[state], "headline": state}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
