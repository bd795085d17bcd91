"""The worker of one run on one node: surroundings, devices, then the job as anywhere else."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from theseus.combobulation import Combobulation
from theseus.dispatch.providers.base import COORDINATOR, PROCESS, PROCESSES
from theseus.dispatch.worker.order import FILE, Order
from theseus.errors import STOPPED, UserError
from theseus.hardware.fitting import USABLE
from theseus.job import Job, Recorder, StopRequested
from theseus.runs import files, open_run, processes
from theseus.runs.run import STATUS, Run

FAILED = 1
_STARTED = "THESEUS_STARTED"
# Read when a process begins, and so too late for a process that has begun.
_EARLY = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON", "MALLOC", "GLIBC")
_MEMORY = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")  # never both
_KNOWN_ENDS = {"finished", "failed", "cancelled"}


class PromiseError(UserError):
    """The worker does not see the devices that its run was given."""


def work(place: str) -> int:
    """Run what the folder's order says and return the exit status: 0, 1, or 75 when stopped."""
    folder = Path(place)
    try:
        order = Order.read(folder)
    except files.RecordError as error:
        _tell(f"there is nothing to do: {error}")
        if _process() == 0:
            _close(folder, "failed", "its order is gone; submit it again")
        return FAILED
    _surround(order)
    first = _process() == 0
    try:
        if first:
            _say_preparing(folder)
        _join()
        check_devices(order)
        _run(folder, order)
    except StopRequested as stopped:
        _tell(str(stopped))
        return STOPPED
    except UserError as error:
        _tell(str(error))
        if first:
            _close(folder, "failed", str(error))
        return FAILED
    except KeyboardInterrupt:
        _tell("stopped")
        return STOPPED
    except BaseException as error:  # noqa: BLE001 - the one place that turns it into a status
        if not first:
            traceback.print_exc()
        elif _close(folder, "failed", f"{type(error).__name__}: {error}"):
            traceback.print_exc()  # otherwise the record of the run has it
        return FAILED
    finally:
        if first:
            _forget(folder)
    return 0


def _run(folder: Path, order: Order) -> None:
    spec = Combobulation.deserialize(order.recipe)
    # A scheduler that starts a run again knows that the attempt before is over.
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0") not in {"", "0"}
    requeued = order.provider == "volcano" or (order.provider == "slurm" and restarts)
    opened: Any = partial(
        open_run,
        watchers=(),
        folder=folder,
        requeued=requeued,
        stopped=partial(_stopped, folder, order.provider),
    )
    if _count() > 1:
        from theseus.dispatch.worker.ranks import opened_together

        opened = partial(opened_together, opened, folder=folder)
    job = spec.quick(order.root).create(open_run=partial(_noting, opened))
    job()


@contextlib.contextmanager
def _noting(opened: Any, job: Job, *, fresh: bool) -> Iterator[Recorder]:
    """Open the run, and write down on what machine it works."""
    with opened(job, fresh=fresh) as recorder:
        if not recorder.finished:
            from theseus.runs.provenance import software

            recorder.event("environment", **software())
        yield recorder


# Surroundings


def _surround(order: Order) -> None:
    """Take over the order's environment; begin anew where a variable is read at the beginning."""
    late = {name: value for name, value in order.env.items() if os.environ.get(name) != value}
    os.environ.update(order.env)
    if not order.chips and order.chip != "tpu":
        # A run on processors leaves the GPUs of its machine to others.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if not any(name in os.environ for name in _MEMORY):
        # JAX takes three quarters of a GPU when left alone; a recipe's estimate counts on this.
        os.environ[_MEMORY[0]] = str(USABLE)
    os.environ["THESEUS_PROGRESS"] = "none"
    if any(name.startswith(_EARLY) for name in late) and _STARTED not in os.environ:
        os.environ[_STARTED] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "theseus.dispatch.worker", *sys.argv[1:]])  # noqa: S606
    os.environ.pop(_STARTED, None)


def _process() -> int:
    return int(os.environ.get(PROCESS) or 0)


def _count() -> int:
    return int(os.environ.get(PROCESSES) or 1)


def _join() -> None:
    """Find the other processes of this run, where there are several."""
    if _count() > 1:
        import jax

        address, count, process = os.environ[COORDINATOR], _count(), _process()
        _tell(f"process {process} of {count}, by way of {address}")
        jax.distributed.initialize(address, count, process)


def check_devices(order: Order) -> None:
    """See that JAX has the devices that the run was given.

    Otherwise it would train on processors, slowly and without a word, or on a neighbour's GPU. Who
    sets JAX_PLATFORMS=cpu for a host wants processors.

    Raises
    ------
    PromiseError
        When it has not.
    """
    if not order.chips:
        return
    visible = processes.visible_gpus()
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        if "CUDA_VISIBLE_DEVICES" in os.environ and len(visible) != order.chips:
            msg = (
                f"{order.chips} × {order.chip} were promised; given: {', '.join(visible) or 'none'}"
            )
            raise PromiseError(msg)
        return
    import jax

    try:
        devices = jax.local_devices()
    except RuntimeError as error:
        msg = f"{order.chips} × {order.chip} were promised, and JAX finds no device: {error}"
        raise PromiseError(msg) from error
    if devices[0].platform == "cpu":
        msg = (
            f"{order.chips} × {order.chip} were promised, and JAX sees processors only: the "
            "environment there has no JAX for them (uv_groups: [all, cuda13] or [all, cuda12])"
        )
        raise PromiseError(msg)
    if len(devices) != order.chips:
        msg = f"{order.chips} × {order.chip} were promised, and JAX sees {len(devices)}: {devices}"
        raise PromiseError(msg)


# What is written down outside of the job


def _stopped(folder: Path, provider: str, reason: str) -> tuple[str, str]:
    """Return how a run is recorded that saved its state and ended because it was asked to."""
    if provider in {"slurm", "volcano"} and _is_queued_again(folder):
        return "queued", f"{reason}; goes on from its last checkpoint"
    return "cancelled", reason


def _forget(folder: Path) -> None:
    """Remove the order, with its secrets, unless the run will need it again."""
    with contextlib.suppress(files.RecordError):
        if files.read_json(folder / STATUS)["state"] == "queued":
            return
    (folder / FILE).unlink(missing_ok=True)


def _say_preparing(folder: Path) -> None:
    status = files.read_json(folder / STATUS)
    if status["state"] in {"finished", "running"}:
        return  # started again by a scheduler: the claim knows what to do
    now = time.time()
    status |= {"state": "preparing", "since": now, "reason": None, "exit": None, "time": now}
    files.write_json(folder / STATUS, {**status, "pids": [processes.this_process()]})


def _close(folder: Path, state: str, reason: str) -> bool:
    """Write down how a run ended; return whether nobody had done so before."""
    with contextlib.suppress(files.RecordError):
        status = Run(folder).status()
        if status["state"] in _KNOWN_ENDS:
            return False
        now = time.time()
        status |= {"state": state, "since": now, "reason": reason[:2000], "exit": FAILED}
        status |= {"pids": [], "time": now, "attempt": max(int(status.get("attempt", 0)), 1)}
        files.write_json(folder / STATUS, status)
    return True


def _is_queued_again(folder: Path) -> bool:
    """Return whether a scheduler stopped the run to start it again, and nobody cancelled it."""
    try:
        stop = (folder / "stop").read_text("utf-8", "replace").strip()
    except OSError:
        stop = ""
    return stop != "cancel"


def _tell(message: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(f"[{now}] theseus: {message}", file=sys.stderr, flush=True)  # noqa: T201


__all__ = ["Order", "PromiseError", "check_devices", "work"]
