"""One run, as its folder tells it; and the list of all runs under a root."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from theseus.runs import files, metrics, processes
from theseus.runs.summary import Progress, Summary

RUN, CONFIG, STATUS = "run.json", "config.yaml", "status.json"
METRICS, EVENTS = "metrics.jsonl", "events.jsonl"
LOG, CHECKPOINTS, RESULTS = Path("log", "0.log"), "checkpoints", "results"

PLOT = "theseus.notebook.plots:Curve"


@dataclass(frozen=True, repr=False)
class Run:
    """One execution of a job under a name, read from its folder.

    What can change is read anew each time it is asked for, so that a run can be followed from
    another process than the one that works on it.
    """

    folder: Path

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What was written once, when the run was made: `run.json`."""
        return files.read_json(self.folder / RUN)

    @property
    def id(self) -> str:
        """The short digest that names the run."""
        return str(self.record["id"])

    @property
    def name(self) -> str:
        """The name as the user wrote it."""
        return str(self.record["name"])

    @property
    def project(self) -> str:
        """The project as the user wrote it."""
        return str(self.record["project"])

    @property
    def group(self) -> str:
        """The group as the user wrote it."""
        return str(self.record["group"])

    @property
    def job(self) -> str:
        """The key of the job, or the path of its class when it has no key."""
        return str(self.record["job"])

    @property
    def config(self) -> DictConfig:
        """The configuration that the run was made with, resolved."""
        loaded = OmegaConf.load(self.folder / CONFIG)
        assert isinstance(loaded, DictConfig)
        return loaded

    def status(self) -> dict[str, Any]:
        """Return the newest `status.json`: state, since, reason, attempt, progress and so on.

        A run whose process is gone without a word is `lost`, as far as this machine can tell.
        """
        status = files.read_json(self.folder / STATUS)
        if status["state"] == "running" and _is_gone(status):
            process = status["pids"][0]
            status["state"] = "lost"
            status["reason"] = f"its process {process['pid']} on {process['host']} is gone"
        return status

    @property
    def state(self) -> str:
        """`running`, `finished`, `failed`, `cancelled`, `lost` (or, elsewhere, `queued`)."""
        return str(self.status()["state"])

    def metrics(self) -> list[dict[str, Any]]:
        """Return one record per reported step, in order; what a resumed run undid is left out."""
        return metrics.merged(files.read_lines(self.folder / METRICS))

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Return the steps and the values of one metric, for example `train/loss`."""
        return metrics.series(self.metrics(), name)

    def events(self) -> list[dict[str, Any]]:
        """Return what happened, in order: `kind`, `time`, `attempt` and the facts of the event."""
        return files.read_lines(self.folder / EVENTS)

    @property
    def log_path(self) -> Path:
        """The file with what the process printed."""
        return self.folder / LOG

    @property
    def checkpoints_folder(self) -> Path:
        """Where the job keeps what it can go on from."""
        return self.folder / CHECKPOINTS

    @property
    def results_folder(self) -> Path:
        """Where the job puts what it makes."""
        return self.folder / RESULTS

    def summary(self) -> Summary:
        """Return the few facts that a short view shows; reads two small files."""
        status = self.status()
        return Summary(
            name=self.name,
            id=self.id,
            job=self.job,
            folder=self.folder,
            state=status["state"],
            reason=status.get("reason"),
            attempt=status.get("attempt", 1),
            host=str(self.record.get("host") or ""),
            since=status.get("since"),
            elapsed=status.get("elapsed"),
            progress=Progress.of(status.get("progress")),
            latest=metrics.plain_numbers(status.get("latest") or {}),
            best=status.get("best"),
            checkpoint=status.get("checkpoint"),
        )

    def plot(self) -> Any:
        """Return the loss curve; a notebook shows it as a picture, a terminal as a text."""
        module, name = PLOT.split(":")
        return getattr(importlib.import_module(module), name).of(self)

    def __repr__(self) -> str:
        try:
            return self.summary().text()
        except files.RecordError as error:  # the folder was removed; an object must still print
            return f"Run at {self.folder}: {error}"

    def _repr_html_(self) -> str | None:
        from theseus.runs.card import card  # only a notebook needs it

        try:
            return card(self.summary())
        except files.RecordError:
            return None  # the text form says why


def list_runs(root: Path | str) -> list[Run]:
    """Return the runs under a root folder, the newest first.

    A folder that is not a whole run, because it was made by hand or is being made right now, is
    left out.
    """
    found = []
    for record in Path(root).glob(f"runs/*/*/*/{RUN}"):
        run = Run(record.parent)
        if run.folder.name.startswith("."):
            continue
        try:
            created = float(run.record["created"])
        except (files.RecordError, KeyError, TypeError, ValueError):
            continue
        found.append((created, str(run.folder), run))
    return [run for _, _, run in sorted(found, key=lambda item: item[:2], reverse=True)]


def _is_gone(status: Mapping[str, Any]) -> bool:
    """Return whether the processes of a running run are known to have ended."""
    pids = status.get("pids") or []
    if not pids or not all(processes.is_this_host(process) for process in pids):
        return False  # another machine's processes cannot be seen from here
    return not any(processes.is_alive(process) for process in pids)
