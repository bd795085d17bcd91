"""What every provider answers to: probe, launch, state, cancel, and the values that go between."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from theseus.errors import UserError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from theseus.dispatch.inventory import Host, Inventory
    from theseus.dispatch.transport import Transport
    from theseus.hardware.resources import Resources

Fit = Literal["now", "queue", "no", "unknown"]
State = Literal[
    "queued", "preparing", "running", "finished", "failed", "cancelled", "lost", "unknown"
]

# Every process that a provider starts finds these in its environment. The worker passes the last
# three to `jax.distributed.initialize`; they are there when a run has more than one process.
RUN = "THESEUS_RUN"  # the run's id; also how `cancel` finds processes that left the tree
COORDINATOR = "THESEUS_COORDINATOR"  # host:port of process 0
PROCESSES = "THESEUS_PROCESSES"  # how many there are
PROCESS = "THESEUS_PROCESS"  # which one this is, from 0; always set


class LaunchError(UserError):
    """A run that could not be started, stopped or asked about; the message says where and why."""


class NoRoomError(LaunchError):
    """The chips that were free when the host was asked are taken: solve again."""


@dataclass(frozen=True)
class Placement:
    """Where a run goes: a decision that the launch carries out as it is.

    Attributes
    ----------
    chip
        Canonical name, or the device's own name when the catalogue does not list it; None for a
        run on processors.
    gpu_ids
        UUIDs on a plain host, in the order of preference; the launch claims these, or others of
        the same product when somebody was faster. Empty elsewhere.
    partition, gres
        SLURM's, as the cluster spells them (`gpu:h100:4`, per node).
    """

    host: str
    chip: str | None
    gpus_per_node: int
    nodes: int
    gpu_ids: tuple[str, ...] = ()
    partition: str | None = None
    gres: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What one host says to a request, and why.

    Attributes
    ----------
    fit
        `now` and `queue` come with a placement; `unknown` means that it could not be asked.
    reason
        One line for a person.
    free, total
        Chips by canonical name.
    holders
        User → chips held.
    starts
        When a queued run would start, unix seconds, where the host can tell.
    """

    host: str
    fit: Fit
    reason: str
    placement: Placement | None = None
    free: Mapping[str, int] = field(default_factory=dict)
    total: Mapping[str, int] = field(default_factory=dict)
    holders: Mapping[str, int] = field(default_factory=dict)
    starts: float | None = None
    probed: float = 0.0


@dataclass(frozen=True)
class Launch:
    """All that a provider needs to start a prepared run.

    Attributes
    ----------
    folder, work, log
        Absolute, on the host: the run's own folder, the unpacked bundle, and the folder in which
        `<rank>.log` lies.
    command
        The worker's argv, run in `work`. Never a secret: others can read it.
    attempt
        The same run and attempt is never started twice, however often it is launched.
    """

    run_id: str
    name: str
    folder: str
    work: str
    command: tuple[str, ...]
    placement: Placement
    cpus: int | None
    memory: int | None
    log: str
    attempt: int = 1


@dataclass(frozen=True)
class Handle:
    """What finds a started run again, on its host.

    plain: `pid start boot folder gpus`; slurm: `job cluster folder`; volcano: `job namespace folder`.
    """

    provider: str
    values: Mapping[str, str | int]


@dataclass(frozen=True)
class Seen:
    """What the host knows about a started run, beside what the run itself has written.

    `unknown` means that the question had no answer; `lost` that everybody who should know was
    asked, and none does. Either may pass: one look is no proof. `note` is what a person should know
    beside that.
    """

    state: State
    reason: str | None
    starts: float | None
    when: float
    note: str | None = None


class Provider(Protocol):
    """One kind of host."""

    def probe(
        self, host: Host, transport: Transport, wanted: Resources, inventory: Inventory
    ) -> Verdict:
        """Say whether the host has what is wanted, now or later, and why."""

    def hold(
        self, host: Host, transport: Transport, placement: Placement, run_id: str
    ) -> AbstractContextManager[Placement]:
        """Keep what was found free from others while the run is sent and prepared.

        Raises
        ------
        NoRoomError
            When somebody was faster.
        """

    def launch(self, host: Host, transport: Transport, launch: Launch) -> Handle:
        """Start a prepared run, or find it when this attempt was started before.

        Raises
        ------
        LaunchError
            When it was not started, or when that cannot be told.
        """

    def state(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """Say what became of a run."""

    def cancel(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """End every process of a run, and say what is left when that did not work."""


class _Providers(Mapping[str, Provider]):
    """Host type → provider, imported when it is asked for."""

    _classes: Mapping[str, str] = {
        "local": "LocalProvider",
        "plain": "PlainProvider",
        "slurm": "SlurmProvider",
        "volcano": "VolcanoProvider",
    }

    def __getitem__(self, kind: str) -> Provider:
        name = self._classes[kind]
        module = importlib.import_module(f"theseus.dispatch.providers.{kind}")
        provider: Provider = getattr(module, name)()
        return provider

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


PROVIDERS: Mapping[str, Provider] = _Providers()
