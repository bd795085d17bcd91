"""A small project with a quick job, sent to hosts that are this machine."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from theseus.combobulation import Combobulation
from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.registry import Registry
from theseus.dispatch.shipping import Shipping
from theseus.dispatch.submission import submit
from theseus.quick import QuickJob

# Counts to `count.steps`, keeps how far it is as a checkpoint, and goes on from there.
JOB = """
import os
import time
from dataclasses import dataclass

from theseus.config import configure, field
from theseus.job import Job, StopRequested


@dataclass
class CountConfig:
    steps: int = field("count/steps", default=3)
    pause: float = field("count/pause", default=0.0)
    fail_at: int = field("count/fail_at", default=0)
    child: bool = field("count/child", default=False)


class Count(Job):
    CONFIG = CountConfig

    def run(self, recorder):
        asked = configure(CountConfig)
        saved = recorder.folder / "checkpoints" / "step"
        step = int(saved.read_text()) if saved.exists() else 0
        if step:
            recorder.event("resumed", step=step)
        if asked.child:
            import subprocess
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            print("child", child.pid)
        print("secret is", len(os.environ.get("HF_TOKEN", "")), "long, color", os.environ.get("COLOR"))
        while step < asked.steps:
            step += 1
            recorder.progress(step, asked.steps, unit="steps")
            recorder.report(step, {"train/loss": 1 / step})
            saved.write_text(str(step))
            recorder.event("checkpoint", step=step)
            failing = recorder.folder / "fail"
            if asked.fail_at == step and not failing.exists():
                failing.write_text("once")
                raise RuntimeError("as asked")
            if recorder.stopping:
                raise StopRequested(f"stopped at {step}")
            time.sleep(asked.pause)
        (recorder.folder / "results" / "sum.txt").write_text(str(step))
"""


class Sending:
    """A user with a project, an inventory and a registry of their own."""

    def __init__(self, tmp_path: Path, monkeypatch: Any) -> None:
        self.tmp = tmp_path
        self.project = tmp_path / "my project"
        self.project.mkdir()
        self.root = tmp_path / "the root's folder"
        self.work = tmp_path / "work folder"
        self.inventory = tmp_path / "inventory.yaml"
        self.registry = Registry(tmp_path / "state" / "theseus")
        self.told: list[str] = []
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.chdir(self.project)
        self.write_inventory()
        self._define(monkeypatch)
        # Each test has a work folder of its own: without this its worker would begin by compiling
        # every module that it imports, which takes longer than the run.
        compiled = str(Path(os.environ["JAX_COMPILATION_CACHE_DIR"]).with_name("bytecode"))
        paths = Shipping._paths
        monkeypatch.setattr(Shipping, "_paths", lambda shipping: (paths(shipping)[0], compiled))

    def _define(self, monkeypatch: Any) -> None:
        self.module = f"counting_{self.tmp.name.replace('-', '_')}"
        (self.project / f"{self.module}.py").write_text(JOB)
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        monkeypatch.syspath_prepend(str(self.project))
        self.job = importlib.import_module(self.module).Count

    def write_inventory(self, *, host: str = "", cluster: str = "", more: str = "") -> None:
        """Write an inventory with one host `me`, and what is added to it."""
        self.inventory.write_text(
            f"""
clusters:
  here:
    root: {json.dumps(str(self.root))}
    work: {json.dumps(str(self.work))}
    {cluster}
hosts:
  me:
    type: local
    cluster: here
    python: {json.dumps(sys.executable)}
    {host}
{more}
"""
        )

    def spec(self, name: str = "count", **values: Any) -> Combobulation:
        recipe = QuickJob(self.tmp / "elsewhere").build(self.job, name)
        for key, value in values.items():
            recipe.config.count[key] = value
        return recipe.spec()

    def submit(self, spec: Combobulation | None = None, **options: Any) -> DispatchedRun:
        options.setdefault("inventory", self.inventory)
        options.setdefault("tell", self.told.append)
        return submit(spec or self.spec(), **options)

    def folder(self, run: DispatchedRun) -> Path:
        return Path(run.folder)


def until(true: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it never came to be")


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make these calls at the same time; return what they return, or raise."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def work(number: int) -> None:
        barrier.wait()
        try:
            results[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


__all__ = ["JOB", "Sending", "at_once", "is_alive", "until"]
