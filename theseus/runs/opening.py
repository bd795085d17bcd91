"""Holding a run open while its job works, and recording how that ended."""

from __future__ import annotations

import contextvars
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from theseus.errors import STOPPED, UserError
from theseus.job import Job, StopRequested
from theseus.runs import files
from theseus.runs.claim import claim, release
from theseus.runs.log import captured
from theseus.runs.recorder import RunRecorder
from theseus.runs.signals import REASONS, stop_requests
from theseus.runs.watching import Watcher, chosen_watchers

PULSE = 0.2  # seconds between two looks at what is new
_REASON_LENGTH = 2000


def _cancelled(reason: str) -> tuple[str, str]:
    return "cancelled", reason


@contextmanager
def open_run(
    job: Job,
    *,
    fresh: bool = False,
    watchers: Iterable[Watcher] | None = None,
    folder: Path | None = None,
    requeued: bool = False,
    stopped: Callable[[str], tuple[str, str]] = _cancelled,
) -> Iterator[RunRecorder]:
    """Hold the record of one execution of `job` open (a `theseus.job.OpenRun`).

    The same job with the same configuration, code and names is the same run. When it has finished,
    the recorder says so and nothing is changed; otherwise it goes on in its folder as the next
    attempt.

    Parameters
    ----------
    job
        The job that is about to run.
    fresh
        Make a new run whatever there is already.
    watchers
        The views that show it; None chooses one for where this process runs.
    folder, requeued
        For a run that was submitted: its folder, and whether a scheduler has started it again.
    stopped
        The state and the reason to record when the job has saved its state and ended because it
        was asked to; a scheduler may start it again.

    Raises
    ------
    RunBusyError
        When the run is being executed elsewhere.
    RecordError
        When its folder cannot be written.
    """
    troubles: list[str] = []
    views = chosen_watchers(troubles.append) if watchers is None else list(watchers)
    claimed = claim(job, fresh=fresh, folder=folder, requeued=requeued)
    recorder = RunRecorder(claimed, views)
    try:
        recorder.open()
        if recorder.finished:
            recorder.close("finished")
            yield recorder
            return
        for trouble in troubles:
            recorder.event("warning", message=trouble)
        with stop_requests(recorder.ask_to_stop):
            try:
                with captured(recorder.log), _pulse(recorder):
                    yield recorder
            except BaseException as error:
                _record_failure(recorder, error, stopped)
                raise
            recorder.close("finished")
    finally:
        release(claimed)


def _record_failure(
    recorder: RunRecorder, error: BaseException, stopped: Callable[[str], tuple[str, str]]
) -> None:
    """Write down why the job ended early; never hide that error behind another one."""
    try:
        if isinstance(error, StopRequested | KeyboardInterrupt):
            reason = recorder.stopping or str(error) or REASONS[signal.SIGINT]
            saved = isinstance(error, StopRequested)
            status = STOPPED if saved else 128 + signal.SIGINT
            state, reason = stopped(reason) if saved else _cancelled(reason)
            recorder.close(state, reason=reason, exit_status=status)
            return
        reason = f"{type(error).__name__}: {error}".rstrip(": ")[:_REASON_LENGTH]
        recorder.event("error", type=type(error).__name__, message=str(error)[:_REASON_LENGTH])
        if not isinstance(error, UserError):
            recorder.log.write("".join(traceback.format_exception(error)))
        code = error.code if isinstance(error, SystemExit) else None
        recorder.close("failed", reason=reason, exit_status=code if isinstance(code, int) else 1)
    except files.RecordError as also:
        error.add_note(f"The run's records could not be completed: {also}")


@contextmanager
def _pulse(recorder: RunRecorder) -> Iterator[None]:
    """Let a thread of its own pass on what is new while the job works."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(PULSE):
            recorder.tick()

    # In the job's own context: a notebook sends what the views show to the cell of the job.
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(beat,), name="theseus-run", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
