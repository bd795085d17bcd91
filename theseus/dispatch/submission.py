"""Sending a run: decide where, send what is missing, start it once, and hand back a way to watch.

    run = submit(q.spec().chip("h100").gpu(4))

The same submission twice is the same run: one that is at work or finished is found, one that failed,
was cancelled or lost gets its next attempt and goes on from its last checkpoint.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from theseus.combobulation import Combobulation
from theseus.dispatch.bundle import LIMIT, Bundle, gather
from theseus.dispatch.dispatched import DispatchedRun, Tell
from theseus.dispatch.identity import Identified, identify_run
from theseus.dispatch.inventory import Inventory, load_inventory
from theseus.dispatch.providers.base import NoRoomError
from theseus.dispatch.reaching import reach
from theseus.dispatch.registry import Entry, Registry, remember_hosts
from theseus.dispatch.shipping import Shipment, ship
from theseus.dispatch.solve import Solution, solve
from theseus.dispatch.transport import Progress
from theseus.errors import UserError

T = TypeVar("T")
_TRIES = 3  # times that somebody else may be faster


class NoHostError(UserError):
    """No host can take the run; the message has every host's verdict.

    Attributes
    ----------
    solution
        The verdicts.
    """

    def __init__(self, message: str, solution: Solution) -> None:
        super().__init__(message)
        self.solution = solution


def submit(
    spec: Combobulation,
    *,
    inventory: Inventory | str | Path | None = None,
    hosts: Sequence[str] | None = None,
    fresh: bool = False,
    code: str | Path | None = None,
    root: str | Path | None = None,
    limit: int = LIMIT,
    tell: Tell | None = None,
    progress: Progress | None = None,
) -> DispatchedRun:
    """Send a run to the first host that fits, and return it as soon as it is launched.

    Parameters
    ----------
    inventory
        The hosts, or the file that lists them; None is the usual one.
    hosts
        Only these.
    fresh
        Another run, although the same one exists.
    code
        A folder of the project to send; None is that of the job's code, or the working folder.
    root
        The folder of data and runs on this machine, for a `local` host that names no cluster.
    limit
        How many bytes of project are sent without asking.
    tell, progress
        Told what happens, in lines, and how much of the project is sent.

    Raises
    ------
    UserError
        When it cannot be sent: a wrong configuration, no host, a host that refuses.
    """
    known = _inventory(inventory, root)
    for name in hosts or ():
        known.host(name)
    tell = tell or (lambda _: None)
    registry = Registry()
    solving = Later(solve, known, spec.resources, hosts=hosts, connect=reach)
    gathering = None
    if code is not None or spec.job.path is None or spec.job.travelling is not None:
        gathering = Later(gather, Path(code or Path.cwd()), limit=limit, private=known.private)
    identified = identify_run(spec)
    gathering = gathering or Later(
        gather, identified.source or Path.cwd(), limit=limit, private=known.private
    )
    with registry.submitting(identified.base):
        again = registry.of_base(identified.base)
        if again is not None and not fresh:
            run = _known(again, registry, tell)
            if run is not None:
                return run
            again = registry.get(again.id)
            solving = Later(
                solve, known, spec.resources, hosts=_same_place(known, again, hosts), connect=reach
            )
        bundle = gathering.result()
        shipment = Shipment(identified, bundle, known, registry, again, fresh, tell, progress)
        for _ in range(_TRIES):
            solution = solving.result()
            remember_hosts(solution.verdicts)
            host, placement = _decision(solution, again if not fresh else None)
            tell(str(solution))
            try:
                return ship(shipment, known.host(host), placement)
            except NoRoomError as error:
                tell(str(error))
                failure = error
                solving = Later(solve, known, spec.resources, hosts=hosts, connect=reach)
        raise failure


def _inventory(given: Inventory | str | Path | None, root: str | Path | None) -> Inventory:
    if isinstance(given, Inventory):
        return given
    return load_inventory(
        None if given is None else Path(given), root=None if root is None else Path(root)
    )


def _known(again: Entry, registry: Registry, tell: Tell) -> DispatchedRun | None:
    """Return the run that an earlier submission started; None when it is to be started (again)."""
    run = DispatchedRun(again, registry)
    if not again.handle and not again.ended:
        tell(f"'{again.name}' ({again.id}) was not launched for certain; looking for it")
        return None
    state = run.settle()
    if state.word == "finished":
        tell(f"'{again.name}' ({again.id}) has finished on {again.host}; fresh=True starts another")
        return run
    if not state.ended:
        tell(f"'{again.name}' ({again.id}) on {again.host} is the same run: {state}")
        return run
    tell(f"'{again.name}' ({again.id}) {state}; starting its next attempt")
    return None


def _same_place(
    known: Inventory, again: Entry | None, hosts: Sequence[str] | None
) -> Sequence[str] | None:
    """Return the hosts on which a run can go on: those that share its folder."""
    if again is None:
        return hosts
    if not again.handle and not again.ended:
        return [again.host]
    sharing = [one.name for one in known.hosts.values() if one.cluster.name == again.cluster]
    if hosts is not None:
        sharing = [name for name in sharing if name in hosts]
    if not sharing:
        asked = f" among {', '.join(hosts)}" if hosts is not None else ""
        msg = (
            f"'{again.name}' ({again.id}) has its checkpoints on cluster '{again.cluster}', of "
            f"which no host is known{asked}; --fresh (fresh=True) starts it anew elsewhere"
        )
        raise UserError(msg)
    return sharing


def _decision(solution: Solution, again: Entry | None) -> tuple[str, Any]:
    chosen = solution.chosen
    if chosen is None or chosen.placement is None:
        more = ""
        if again is not None:
            more = (
                f"\n'{again.name}' ({again.id}) has its checkpoints on cluster '{again.cluster}'; "
                "--fresh (fresh=True) starts it anew elsewhere"
            )
        msg = f"no host can take this run\n{solution}{more}"
        raise NoHostError(msg, solution)
    return chosen.host, chosen.placement


class Later(Generic[T]):
    """A call that is made meanwhile, in a thread that nobody has to wait for."""

    def __init__(self, function: Callable[..., T], *arguments: Any, **options: Any) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        context = contextvars.copy_context()

        def work() -> None:
            try:
                self._value = context.run(lambda: function(*arguments, **options))
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                self._error = error

        self._thread = threading.Thread(target=work, name="theseus submit", daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for it, and return what it returned or raise what it raised."""
        while self._thread.is_alive():
            self._thread.join(0.2)  # so that Ctrl-C is heard
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value] # it was set, or an error was


__all__ = ["Bundle", "Identified", "NoHostError", "submit"]
