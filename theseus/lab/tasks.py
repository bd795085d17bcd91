"""Work that takes longer than a request: begun at once, asked after by its id."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from theseus.errors import UserError
from theseus.lab.base import RequestError
from theseus.lab.threads import start

_KEPT = 200  # tasks that can be asked after when they are done
_log = logging.getLogger("theseus.lab")


class Progress(TypedDict):
    """How much is done, in bytes; `total` is None when nobody knows."""

    done: int
    total: int | None


class Told(TypedDict):
    """A task as the browser is told of it."""

    done: bool
    message: str
    error: str | None
    progress: Progress | None
    result: dict[str, Any]


@dataclass
class Task:
    """One piece of work; what it says of itself may be read from any thread.

    Attributes
    ----------
    key
        What is done to what: while it is, the same is not begun a second time.
    message
        What is being done; when it is done, what came of it.
    result
        What programs want to know of that.
    """

    key: str
    message: str
    done: bool = False
    error: str | None = None
    progress: Progress | None = None
    result: dict[str, Any] = field(default_factory=dict)

    def moved(self, done: int, total: int | None) -> None:
        """Note how much of it is done."""
        self.progress = {"done": done, "total": total}

    def told(self) -> Told:
        """Return it as plain values."""
        return Told(
            done=self.done, message=self.message, error=self.error, progress=self.progress,
            result=dict(self.result),
        )  # fmt: skip


Work = Callable[[Task], str]


class Tasks:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}

    def begin(self, key: str, message: str, work: Work) -> str:
        """Do something on a thread of its own; return the task's id.

        Parameters
        ----------
        key
            What is done to what. A second click finds the task that the first has begun.
        message
            What is said until there is more to say.
        work
            Does it, and returns what came of it.
        """
        with self._lock:
            for known, task in self._tasks.items():
                if task.key == key and not task.done:
                    return known
            while len(self._tasks) >= _KEPT and (old := self._oldest_done()) is not None:
                del self._tasks[old]
            identity = secrets.token_hex(8)
            task = self._tasks[identity] = Task(key, message)
        start(_do, task, work, name=key)
        return identity

    def told(self, identity: str) -> Told:
        """Return how a task stands.

        Raises
        ------
        RequestError
            When there is none.
        """
        task = self._tasks.get(identity)
        if task is None:
            message = "there is no such task; the server may have been started anew since"
            raise RequestError(404, message, "Look at the run itself.")
        return task.told()

    def _oldest_done(self) -> str | None:
        return next((known for known, task in self._tasks.items() if task.done), None)


def _do(task: Task, work: Work) -> None:
    try:
        task.message = work(task)
    except UserError as error:
        task.error = str(error)
    except Exception as error:  # noqa: BLE001 - told where it was asked for, and to the server's log
        task.error = f"{type(error).__name__}: {error}"
        _log.exception("%s failed", task.key)
    finally:
        task.done = True
