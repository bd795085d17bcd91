"""The estimate of a recipe's memory, made on a thread: the newest question is the one answered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from theseus._plain import frozen
from theseus.combobulation import Combobulation
from theseus.errors import UserError
from theseus.hardware.fitting import Workload
from theseus.notebook import threads
from theseus.sizing import REMAT, ROWS, with_values, workload_of, workload_of_job

Ask = Callable[[], Workload]
Answer = Callable[[Any, "Workload | None", str], None]

_KEPT = 16  # workloads; each is some dozen shapes


class Estimates:
    """Answers one widget's questions, one at a time, and never on the thread that asks.

    Parameters
    ----------
    answer
        Called on the thread with the question's key, the workload or None, and why there is none.
    """

    _known: ClassVar[OrderedDict[Any, Workload]] = OrderedDict()
    _knowing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._waiting: tuple[Any, Ask] | None = None
        self._working = False

    @classmethod
    def known(cls, key: Any) -> Workload | None:
        """Return an answer that was given before, to any widget."""
        with cls._knowing:
            return cls._known.get(key)

    def ask(self, key: Any, ask: Ask) -> None:
        """Answer this question next; one that still waits is forgotten."""
        with self._lock:
            self._waiting = (key, ask)
            if self._working:
                return
            self._working = True
        threads.start(self._work, name="theseus estimate")

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._waiting is None:
                    self._working = False
                    return
                (key, ask), self._waiting = self._waiting, None
            work, why = None, ""
            try:
                work = ask()
            except UserError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - told where the estimate would be
                why = f"{type(error).__name__}: {error}"
            if work is not None:
                with self._knowing:
                    self._known[key] = work
                    while len(self._known) > _KEPT:
                        self._known.popitem(last=False)
            self._answer(key, work, why)


def question(spec: Combobulation, recipe: Any, *, trusting: bool) -> tuple[Any, Ask]:
    """Return what is asked about a recipe, and how it is answered.

    What a micro-batch holds and what is computed again is no part of it: that is arithmetic.

    Parameters
    ----------
    recipe
        The `QuickJob` that the spec is of, or None.
    """
    settled = {key: None for key in (ROWS, REMAT) if _has(spec, key)}
    plain = with_values(spec, settled)
    key = frozen(plain.values)
    if recipe is not None:
        job = recipe.create()  # now: the configuration is copied before it can change
        return (recipe.job_class, key), lambda: workload_of_job(job)
    return (spec.job, key), lambda: workload_of(spec, trusting=trusting)


def _has(spec: Combobulation, key: str) -> bool:
    group, _, name = key.partition(".")
    return name in (spec.values.get(group) or {})
