"""Speed counts training time alone."""

from __future__ import annotations

import pytest

from theseus.training import meter
from theseus.training.meter import Meter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(meter.time, "perf_counter", lambda: now[0])
    return now


def test_validation_and_compilation_are_left_out(clock: list[float]) -> None:
    timed = Meter(100)
    with timed.compiling():
        clock[0] += 30
    timed.start()
    for _ in range(4):
        clock[0] += 1
        timed.step()
    with timed.paused():
        clock[0] += 10
    assert timed.tokens_per_second() == 100
    assert timed.compile_seconds == 30


def test_steps_read_at_once_do_not_make_a_peak(clock: list[float]) -> None:
    timed = Meter(100)
    timed.start()
    clock[0] += 2
    timed.step()
    assert timed.tokens_per_second() == 50
    clock[0] += 0.001
    timed.step()
    assert timed.tokens_per_second() == 50
    clock[0] += 1.999
    timed.step()
    assert timed.tokens_per_second() == 100


def test_there_is_no_speed_before_the_first_step(clock: list[float]) -> None:
    assert Meter(100).tokens_per_second() is None
