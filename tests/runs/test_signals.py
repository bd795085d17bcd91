"""Ctrl-C and SIGTERM, sent to a real process."""

import signal
import threading
import time

import pytest

from tests.runs.helpers import small_job, start_python
from theseus.runs import list_runs

POLITE = """
import sys, time
from pathlib import Path
from theseus.job import StopRequested
from tests.runs.helpers import small_job

def body(recorder):
    print("ready", flush=True)
    for step in range(1, 2000):
        time.sleep(0.01)
        recorder.progress(step, 2000, unit="steps")
        if recorder.stopping:
            recorder.event("checkpoint", step=step)
            raise StopRequested("stopped: " + recorder.stopping)

small_job(Path(sys.argv[1]), body=body)()
"""

STUBBORN = """
import sys, time
from pathlib import Path
from tests.runs.helpers import small_job

def body(recorder):
    print("ready", flush=True)
    while not recorder.stopping:
        time.sleep(0.01)
    print(recorder.stopping, flush=True)
    time.sleep(60)

small_job(Path(sys.argv[1]), body=body)()
"""


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "terminated"),
        (signal.SIGUSR1, "the time limit is near"),
    ],
)
def test_the_first_signal_ends_at_the_next_step_with_the_state_saved(root, number, reason):
    process = start_python(POLITE, root)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert f"StopRequested: stopped: {reason}" in errors
    (run,) = list_runs(root)
    assert run.state == "cancelled"
    assert (run.status()["reason"], run.status()["exit"]) == (reason, 75)
    kinds = [event["kind"] for event in run.events()]
    assert "stopping" in kinds
    assert "checkpoint" in kinds
    assert f"go on from step {run.status()['checkpoint']}" in run.summary().next_step("Run it")


def test_one_press_that_arrives_twice_is_one(root):
    process = start_python(POLITE, root)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "StopRequested" in errors
    assert "KeyboardInterrupt" not in errors


def test_the_second_signal_ends_it_at_once(root):
    process = start_python(STUBBORN, root)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors
    (run,) = list_runs(root)
    assert run.state == "cancelled"
    assert run.status()["exit"] == 130


def test_the_stop_is_told_while_the_job_is_still_busy(root):
    process = start_python(STUBBORN, root)
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        (run,) = list_runs(root)
        deadline = time.monotonic() + 10
        while "stopping" not in [event["kind"] for event in run.events()]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


def test_handlers_are_put_back(root):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    inside = {}

    def body(recorder):
        inside.update({number: signal.getsignal(number) for number in before})

    small_job(root, body=body)()
    assert {number: signal.getsignal(number) for number in before} == before
    assert all(inside[number] is not before[number] for number in before)


def test_an_ignored_signal_stays_ignored(root):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        seen = []
        small_job(root, body=lambda recorder: seen.append(signal.getsignal(signal.SIGINT)))()
        assert seen == [signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_the_handlers_are_left_alone(root):
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def start():
        small_job(root, body=lambda recorder: seen.append(signal.getsignal(signal.SIGINT)))()

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert seen == [before]
