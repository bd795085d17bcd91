"""Ask all hosts at once whether a request fits, and decide: every verdict with its reason.

    solution = solve(load_inventory(), Resources(chips=("h100",), gpus=4))
    print(solution)

The first host in priority that fits *now* wins, else the first that can queue the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from theseus._summary import aligned
from theseus.dispatch.inventory import Host, Inventory
from theseus.dispatch.providers.base import PROVIDERS, Verdict
from theseus.dispatch.transport import Transport, TransportError, connect
from theseus.hardware.resources import Resources
from theseus.runs.words import duration, moment, one_line

_WORDS = {"now": "fits now", "queue": "can queue", "no": "no", "unknown": "no answer"}

# How long a host that has not even been reached is waited for, as a multiple of the slowest answer
# so far, and at least so many seconds from the start. Many answers say a lot about how long one
# takes; a single one, or none that fits, is no reason to pass over a host that is only far away.
_SURE = (1.1, 1.0)
_UNSURE = (3.0, 3.0)
_ENOUGH = 3
# When somebody can take the run, nobody who has not even been reached is waited for longer than so
# many seconds after the slowest answer.
_BEYOND = 2.8


@dataclass(frozen=True)
class Solution:
    """Which host takes the run, and what every host said.

    Attributes
    ----------
    chosen
        None when no host can take it.
    verdicts
        In priority order.
    """

    chosen: Verdict | None
    verdicts: tuple[Verdict, ...]

    def table(self) -> list[tuple[str, str, str, str]]:
        """Return a row for each host: a mark for the chosen one, name, verdict, reason."""
        return [
            (
                "→" if verdict is self.chosen else "",
                one_line(verdict.host),
                _WORDS[verdict.fit],
                one_line(_reason(verdict)),
            )
            for verdict in self.verdicts
        ]

    def __str__(self) -> str:
        return "\n".join(aligned(self.table()))


def solve(
    inventory: Inventory,
    wanted: Resources,
    *,
    hosts: Sequence[str] | None = None,
    timeout: float = 20.0,
    connect: Callable[[Host], Transport] = connect,
) -> Solution:
    """Return the host that takes a request, with a verdict for every host.

    Parameters
    ----------
    hosts
        Only these; None asks all.
    timeout
        Seconds that each host may take. One that cannot be reached holds the others up for less.
    """
    names = [name for name in inventory.priority if hosts is None or name in hosts]
    verdicts = {name: ruled_out(inventory.hosts[name], wanted) for name in names}
    asking = [inventory.hosts[name] for name, verdict in verdicts.items() if verdict is None]
    round_ = _Round(inventory, wanted, asking, timeout, connect)
    verdicts |= round_.verdicts()
    ordered = tuple(verdict for name in names if (verdict := verdicts[name]) is not None)
    chosen = next((one for fit in ("now", "queue") for one in ordered if one.fit == fit), None)
    return Solution(chosen, ordered)


def ruled_out(host: Host, wanted: Resources) -> Verdict | None:
    """Return the verdict on a host whose cluster is not wanted; None where it may be asked."""
    cluster = host.cluster.name
    if wanted.clusters and cluster not in wanted.clusters:
        reason = f"is in cluster '{cluster}', not in {' or '.join(wanted.clusters)}"
    elif cluster in wanted.avoid:
        reason = f"is in cluster '{cluster}', which is to be avoided"
    else:
        return None
    return Verdict(host.name, "no", reason)


@dataclass
class _Round:
    """One question to many hosts, each in a thread that nobody has to wait for."""

    inventory: Inventory
    wanted: Resources
    hosts: Sequence[Host]
    timeout: float
    connect: Callable[[Host], Transport]
    answers: dict[str, Verdict] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    transports: dict[str, Transport] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    began: float = field(default_factory=time.monotonic)

    def verdicts(self) -> Mapping[str, Verdict]:
        """Ask, and return what was answered by the time that it is decided."""
        for host in self.hosts:
            name = f"theseus probe {host.name}"
            threading.Thread(target=self._ask, args=(host,), name=name, daemon=True).start()
        with self.changed:
            while silent := [host for host in self.hosts if host.name not in self.answers]:
                left = max(map(self._patience, silent)) - self._elapsed()
                if left <= 0:
                    break
                self.changed.wait(min(left, 0.05))  # a connection that stands tells nobody
            late = {host.name: self._late(host) for host in silent}
            return {**self.answers, **late}

    def _ask(self, host: Host) -> None:
        try:
            transport = self.connect(host)
            self.transports[host.name] = transport
            verdict = PROVIDERS[host.type].probe(host, transport, self.wanted, self.inventory)
        except TransportError as error:
            verdict = Verdict(host.name, "unknown", _without_name(str(error), host))
        except Exception as error:  # noqa: BLE001 - one bad host must not keep the others from us
            verdict = Verdict(host.name, "unknown", f"{type(error).__name__}: {error}")
        with self.changed:
            self.answers[host.name] = verdict
            self.took[host.name] = self._elapsed()
            self.changed.notify()

    def _elapsed(self) -> float:
        return time.monotonic() - self.began

    def _patience(self, host: Host) -> float:
        """Return how many seconds from the start a host that is silent yet may take."""
        if _reached(self.transports.get(host.name)):
            return self.timeout
        living = [
            one
            for one in self.hosts
            if one.name in self.answers and self.answers[one.name].fit != "unknown"
        ]
        # Only an answer that came from afar says how long one takes.
        afar = [self.took[one.name] for one in living if one.ssh is not None]
        fits = {self.answers[one.name].fit for one in living}
        if not fits & {"now", "queue"}:
            return (
                min(max(_UNSURE[0] * max(afar), _UNSURE[1]), self.timeout) if afar else self.timeout
            )
        times, least = _SURE if "now" in fits and len(afar) >= _ENOUGH else _UNSURE
        patience = max(times * max(afar, default=0.0), least)
        last = max(self.took[one.name] for one in living)
        return min(patience, last + _BEYOND, self.timeout)

    def _late(self, host: Host) -> Verdict:
        waited = duration(self._elapsed())
        return Verdict(host.name, "unknown", f"did not answer within {waited}", probed=time.time())


def _reached(transport: Transport | None) -> bool:
    """Say whether a connection stands: then the host is alive, however long it takes."""
    return bool(getattr(transport, "connected", False))


def _without_name(message: str, host: Host) -> str:
    return message.removeprefix(f"host '{host.name}': ")


def _reason(verdict: Verdict) -> str:
    if verdict.starts is None:
        return verdict.reason
    return f"{verdict.reason}, starts about {moment(verdict.starts)}"
