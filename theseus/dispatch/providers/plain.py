"""A machine without a queue: look for free chips, claim them, start a detached worker there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from theseus.dispatch.providers.base import (
    Handle,
    Launch,
    LaunchError,
    NoRoomError,
    Placement,
    Seen,
    Verdict,
)
from theseus.dispatch.providers.endings import seen_by_exit
from theseus.dispatch.providers.plain_judge import judge, machine_of
from theseus.dispatch.providers.programs import Report, ask, program, read_report
from theseus.dispatch.providers.request import need_of
from theseus.dispatch.transport.base import Answer, ByteStream, TransportError

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host, Inventory
    from theseus.dispatch.transport import Transport
    from theseus.hardware.resources import Resources

# Shared by everyone who uses the machine, hence a fixed place that all of them can write to.
CLAIMS = "/tmp/theseus-gpu-claims"  # noqa: S108 (sticky; files are made exclusively, never through links)
GRACE = 20  # seconds that a cancelled run has to end well
HOLD = 120  # seconds that a claim outlives the connection over which it is held
_LONGEST_HOLD = 6 * 3600  # seconds: as long as the slowest `uv sync`
RELEASE = 10  # seconds that a driver may take to give memory back
_LOOKS = 3


class PlainProvider:
    """A host that is reached by ssh and runs what it is told."""

    def probe(
        self, host: Host, transport: Transport, wanted: Resources, inventory: Inventory
    ) -> Verdict:
        """Say what is free, who holds the rest, and which GPUs the run would get."""
        need = need_of(wanted)
        report = ask(transport, ("gpus", "plain_probe"), CLAIMS, 1)
        verdict, doubtful = judge(host, need, machine_of(report))
        if doubtful and verdict.fit == "no":
            # Memory without a process may be that of one that is just ending.
            report = ask(transport, ("gpus", "plain_probe"), CLAIMS, _LOOKS)
            verdict, _ = judge(host, need, machine_of(report))
        return verdict

    @contextmanager
    def hold(
        self, host: Host, transport: Transport, placement: Placement, run_id: str
    ) -> Iterator[Placement]:
        """Claim the GPUs for as long as the run is sent and prepared: minutes, with `uv sync`."""
        if not placement.gpus_per_node:
            yield placement
            return
        mark = f"@{secrets.token_hex(8)}"
        stream = transport.stream(
            program("common", "gpus", "plain_hold"),
            mark,
            CLAIMS,
            run_id,
            _kind(placement),
            str(placement.gpus_per_node),
            str(HOLD),
            str(_LONGEST_HOLD),
            *placement.gpu_ids,
        )
        try:
            report = _heard(stream, mark)
            if "held" not in report:
                raise _not_started(host, report)
            yield replace(placement, gpu_ids=tuple(report.text("held").split()))
        except BaseException:
            stream.close()
            with suppress(TransportError):  # what cannot be released now runs out by itself
                ask(transport, ("gpus", "plain_release"), CLAIMS, run_id)
            raise
        finally:
            stream.close()

    def launch(self, host: Host, transport: Transport, launch: Launch) -> Handle:
        """Claim GPUs and start the worker; the same attempt is found, not started again."""
        placement = launch.placement
        report = ask(
            transport,
            ("gpus", "plain_launch"),
            CLAIMS,
            launch.folder,
            launch.work,
            launch.log,
            launch.run_id,
            launch.attempt,
            _kind(placement),
            placement.gpus_per_node,
            len(placement.gpu_ids),
            *placement.gpu_ids,
            *launch.command,
            timeout=180,
        )
        record = report.values("started") or report.values("found")
        if not record.get("pid", "").isdecimal():
            raise _not_started(host, report)
        return Handle(
            host.type,
            {
                "pid": int(record["pid"]),
                "start": record.get("start", ""),
                "boot": record.get("boot", ""),
                "attempt": record.get("attempt", ""),
                "gpus": record.get("gpus", ""),
                "folder": launch.folder,
                "run": launch.run_id,
            },
        )

    def state(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """Say whether the run's first process is there, or how it ended."""
        values = handle.values
        report = ask(
            transport,
            ("plain_state",),
            *(values[name] for name in ("folder", "pid", "start", "boot", "attempt")),
        )
        return _seen(report)

    def cancel(self, host: Host, transport: Transport, handle: Handle) -> Seen:
        """End every process of the run: asked first, then killed; and look at its GPUs."""
        values = handle.values
        report = ask(
            transport,
            ("gpus", "plain_cancel"),
            *(values[name] for name in ("folder", "run", "pid", "start", "boot", "attempt")),
            GRACE,
            values["gpus"],
            RELEASE,
            timeout=GRACE + RELEASE + 60,
        )
        if left := report.text("left").split():
            return Seen("running", f"cannot be ended: process {', '.join(left)}", None, time.time())
        seen = self.state(host, transport, handle)
        if held := report.text("held").split():
            return Seen(seen.state, f"memory is still held on {', '.join(held)}", None, time.time())
        return seen


def _heard(stream: ByteStream, mark: str) -> Report:
    """Return the first answer of a program that goes on."""
    said = b""
    while f"\n{mark} end ".encode() not in said and (data := stream.read(90)):
        said += data
    return read_report(Answer(0, said, stream.answer.err if stream.answer else b""), mark)


def _kind(placement: Placement) -> str:
    if not placement.gpus_per_node:
        return "none"
    return "device" if placement.gpu_ids[:1] == ("tpu",) else "nvidia"


def _not_started(host: Host, report: Report) -> LaunchError:
    if "taken" in report:
        return NoRoomError(f"host '{host.name}': {report.text('taken')}; submit again")
    said = report.text("failed") or report.text("locked") or report.complaint
    return LaunchError(f"host '{host.name}': the run was not started: {said or 'no reason given'}")


def _seen(report: Report) -> Seen:
    life = report.text("life")
    cancelled = report.text("stop").strip() == "cancel"
    if ended := seen_by_exit(report.values("exit"), cancelled=cancelled):
        return ended
    if life == "alive":
        return Seen("running", None, None, time.time())
    if life in {"gone", "rebooted"}:
        why = "the machine was restarted" if life == "rebooted" else "its first process was killed"
        if cancelled:
            return Seen("cancelled", why, None, time.time())
        return Seen("lost", f"{why} before it could write how it ended", None, time.time())
    return Seen("unknown", report.complaint or "the host gave no answer", None, time.time())
