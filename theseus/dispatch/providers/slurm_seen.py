"""What became of a SLURM job, from all who may know: pure.

Our own record, the queue, the accounting and the controller seldom agree, and do not always answer.
"""

from __future__ import annotations

import time

from theseus.dispatch.providers.base import Seen, State
from theseus.dispatch.providers.endings import seen_by_exit
from theseus.dispatch.providers.programs import Report
from theseus.dispatch.providers.slurm_parse import fields_of, job_state, parse_rows, parse_time

_ENDED: tuple[State, ...] = ("finished", "failed", "cancelled")
_WORDS = {
    "TIMEOUT": "its time limit was reached",
    "OUT_OF_MEMORY": "it used more memory than it had asked for",
    "NODE_FAIL": "a node failed",
    "BOOT_FAIL": "a node could not be started",
    "DEADLINE": "its deadline passed",
    "PREEMPTED": "it was preempted and has not been queued again",
}


def seen(report: Report, job: str) -> Seen:
    """Return the state of a job.

    A job that nobody knows has not finished: it is `lost` when everyone was asked and answered, and
    `unknown` when somebody did not answer.
    """
    cancelled = report.text("stop").strip() == "cancel"
    ours = report.values("exit")
    if ours.get("how") == "ended" and (ended := seen_by_exit(ours, cancelled=cancelled)):
        return ended

    queued, queue_answered = _queue(report, job)
    if queued:
        return queued
    by_accounting, accounting_answered = _accounting(report, job)
    by_controller, controller_answered = _controller(report, job)
    for answer in (by_accounting, by_controller):
        # Accounting lags behind: what it calls running is not, when the queue says otherwise.
        if answer and (answer.state in _ENDED or not queue_answered):
            return answer
    if not queue_answered:
        return _answer("unknown", _said(report, "queue") or "SLURM gave no answer")
    if cancelled and ours.get("how") == "terminated":
        return _answer("cancelled", None)
    preempted = next(
        (one for one in (by_accounting, by_controller) if one and one.state == "lost"), None
    )
    if preempted:
        return preempted
    if by_accounting or by_controller:
        return _answer("unknown", "it has left the queue; how it ended is not known yet")
    if accounting_answered and controller_answered:
        return _answer(
            "lost", "neither the queue nor the accounting knows the job, and it left no record"
        )
    return _answer("unknown", "it is not in the queue, and the accounting gave no answer")


def _queue(report: Report, job: str) -> tuple[Seen | None, bool]:
    for section in report.each("queue"):
        for number, state, reason, starts in parse_rows(section.text, 4):
            if number != job:
                continue
            found = job_state(state)
            if found in {"queued", "lost"}:  # preempted, and still here: it will run again
                waits = None if reason in {"None", ""} else reason
                return _answer("queued", waits, parse_time(starts)), True
            return _answer(found, _reason(state)), True
        absent = section.status == 0 and "error" not in section.text.lower()
        return None, absent or "Invalid job id" in section.text
    return None, False


def _accounting(report: Report, job: str) -> tuple[Seen | None, bool]:
    """Return the newest row: a job that was requeued has one for each time it ran."""
    for section in report.each("accounting"):
        rows = [line.split("|") for line in section.text.splitlines() if line.count("|") == 2]
        states = [state for number, state, _ in rows if number.strip() == job]
        if states:
            return _answer(job_state(states[-1]), _reason(states[-1])), True
        switched_off = "disabled" in section.text or section.status == 127
        return None, switched_off or (section.status == 0 and "error" not in section.text.lower())
    return None, False


def _controller(report: Report, job: str) -> tuple[Seen | None, bool]:
    for section in report.each("record"):
        for fields in map(fields_of, section.text.splitlines()):
            if fields.get("JobId") == job and fields.get("JobState"):
                state = fields["JobState"]
                starts = parse_time(fields.get("StartTime", ""))
                return _answer(job_state(state), _reason(state), starts), True
        return None, "Invalid job id" in section.text
    return None, False


def _reason(state: str) -> str | None:
    word = (state.split() or [""])[0].rstrip("+")
    if job_state(word) in {"running", "finished"}:
        return None
    if job_state(word) == "unknown":
        return f"SLURM calls it {word or 'nothing'}"
    if word == "CANCELLED" and " by " in state:
        return f"cancelled by user {state.split(' by ')[1].strip()}"
    return _WORDS.get(word, word.lower().replace("_", " "))


def _answer(state: State, reason: str | None, starts: float | None = None) -> Seen:
    starts = starts if state == "queued" else None
    return Seen(state, reason, starts, time.time())


def _said(report: Report, name: str) -> str:
    return next(filter(None, map(str.strip, report.text(name).splitlines())), "")
