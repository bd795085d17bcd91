"""What can be done from the browser: to a run, and to the list of hosts. All of it on threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theseus.errors import UserError
from theseus.lab.base import Handler, RequestError, endpoint

if TYPE_CHECKING:
    from theseus.dispatch.registry import Entry
    from theseus.dispatch.showing import SentRun
    from theseus.lab.tasks import Task

# Submitting again loads the job's class, and with it JAX: never in the server.
_AGAIN = "theseus.lab.again"


class ActionHandler(Handler):
    """The base of what changes something: it counts as use of the server."""

    _track_activity = True

    def inside(self, text: Any) -> Path:
        """Return a path below the server's folder, as the browser names it."""
        if not isinstance(text, str) or "\0" in text:
            raise RequestError(400, "a path is a text")
        root = self.root()
        path = (root / text.strip().lstrip("/")).resolve()
        if not path.is_relative_to(root):
            raise RequestError(
                403, f"{text[:200]!r} leads out of the folder of this server", "Choose one inside."
            )
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            raise RequestError(403, f"{text[:200]!r} is hidden", "Choose one that is not.")
        return path

    async def begin(self, key: str, message: str, work: Callable[[Task], str]) -> None:
        """Begin a task, and answer with its id."""
        self.answer({"task": self.service.tasks.begin(key, message, work)})


class CancelHandler(ActionHandler):
    """Ending a run."""

    @endpoint
    async def post(self, run: str) -> None:
        """End it, with everything that it has started."""
        entry = await self.service.entry(run)
        await self.begin(f"cancel {run}", "ending it …", lambda task: _cancel(entry))


class FetchHandler(ActionHandler):
    """Bringing a run's files."""

    @endpoint
    async def post(self, run: str) -> None:
        """Bring them below the server's folder."""
        entry = await self.service.entry(run)
        asked = self.body()
        named = asked.get("to") or entry.folder.rstrip("/").rpartition("/")[2] or run
        to, root = self.inside(named), self.root()
        checkpoints = asked.get("checkpoints") is True

        def work(task: Task) -> str:
            run_ = _source(entry).run
            folder = run_.fetch(to, checkpoints=checkpoints, progress=task.moved)
            task.result = {"path": str(folder.relative_to(root))}
            return f"its files are in {folder}"

        await self.begin(f"fetch {run}", "bringing its files …", work)


class ResubmitHandler(ActionHandler):
    """Submitting the same thing again."""

    @endpoint
    async def post(self, run: str) -> None:
        """Start its next attempt, or another run of what has finished."""
        entry = await self.service.entry(run)
        if not entry.ended:
            raise RequestError(409, f"'{entry.name}' ({run}) has not ended", "Cancel it first.")
        root = self.root()
        await self.begin(f"resubmit {run}", "submitting …", lambda task: _again(entry, root, task))


class TaskHandler(Handler):
    """How a task stands."""

    @endpoint
    async def get(self, task: str) -> None:
        """Answer with how it stands."""
        self.answer(self.service.tasks.told(task))


class HostsHandler(Handler):
    """The hosts as they were last seen."""

    @endpoint
    async def get(self) -> None:
        """Answer with the hosts; nobody is asked."""
        self.answer(await self.service.read(_hosts))


class RefreshHandler(ActionHandler):
    """Asking the hosts."""

    @endpoint
    async def post(self) -> None:
        """Ask all hosts what they have free."""
        await self.begin("refresh hosts", "asking the hosts …", _refresh)


def _source(entry: Entry) -> SentRun:
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.showing import SentRun

    return SentRun(DispatchedRun(entry))


def _cancel(entry: Entry) -> str:
    notes: list[str] = []
    run = _source(entry).run
    word = run.cancel(tell=notes.append)
    return "; ".join([f"{word} on {run.host}", *notes])


def _again(entry: Entry, root: Path, task: Task) -> str:
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", _AGAIN, entry.id],
        cwd=root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        start_new_session=True,  # a server that is stopped does not stop half a submission
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    try:
        told = json.loads(lines[-1])
        if "error" in told:
            raise UserError(told["error"])
        task.result = {"run": str(told["id"])}
        return f"submitted: {told['id']} on {told['host']}, attempt {told['attempt']}"
    except (IndexError, KeyError, TypeError, ValueError) as error:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = said[-1] if said else f"exit status {done.returncode}"
        raise UserError(f"it could not be submitted again: {last}") from error


def _hosts() -> dict[str, Any]:
    from theseus.dispatch.asking import last_seen
    from theseus.dispatch.inventory import inventory_path, load_inventory

    path = inventory_path()
    return {
        "hosts": last_seen(load_inventory(path)),
        "inventory": None if path is None else str(path),
        "now": time.time(),
    }


def _refresh(_: Task) -> str:
    from theseus.dispatch.asking import ask_all
    from theseus.dispatch.inventory import load_inventory

    known = load_inventory()
    ask_all(known)
    count = len(known.hosts)
    return f"{count} hosts were asked" if count != 1 else "one host was asked"
