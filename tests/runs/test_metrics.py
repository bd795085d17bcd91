import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.runs.metrics import merged, role, series


def line(step, attempt=1, **more):
    return {"step": step, "tokens": 0, "time": 0.0, "attempt": attempt, **more}


def steps(records):
    return [record["step"] for record in records]


def test_reports_of_one_step_become_one_record():
    (record,) = merged([line(1, a=1), line(1, b=2)])
    assert (record["a"], record["b"]) == (1, 2)


def test_what_a_resumed_run_undid_is_dropped():
    lines = [*(line(step, a=1) for step in (5, 10, 15, 20, 25))]
    lines += [line(30, attempt=2, **{"from": 20}), line(35, attempt=2)]
    assert steps(merged(lines)) == [5, 10, 15, 20, 30, 35]


def test_without_a_word_about_where_it_went_on_its_first_step_counts():
    lines = [line(1), line(2), line(3), line(2, attempt=2), line(4, attempt=2)]
    records = merged(lines)
    assert steps(records) == [1, 2, 4]
    assert [record["attempt"] for record in records] == [1, 2, 2]


def test_a_run_that_began_anew_shows_nothing_of_before():
    lines = [line(10), line(20), line(1, attempt=2, **{"from": 0})]
    assert steps(merged(lines)) == [1]


def test_an_attempt_that_died_before_its_first_report_drops_nothing():
    lines = [line(1), line(2), line(3, attempt=3, **{"from": 2})]
    assert steps(merged(lines)) == [1, 2, 3]


def test_a_validation_repeated_at_the_step_of_the_checkpoint_adds_to_the_record():
    (record,) = merged([line(4, loss=2.0), line(4, attempt=2, val=3.0, **{"from": 4})])
    assert (record["loss"], record["val"]) == (2.0, 3.0)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_interrupted_anywhere_the_steps_are_those_of_an_uninterrupted_run(lengths):
    """Each attempt runs so many steps and saves every fourth; the next goes on from there."""
    lines, saved = [], 0
    for attempt, length in enumerate(lengths, start=1):
        start = saved
        for step in range(start + 1, start + length + 1):
            first = {"from": start} if attempt > 1 and step == start + 1 else {}
            lines.append(line(step, attempt, loss=step * 1000 + attempt, **first))
            saved = step if step % 4 == 0 else saved
        last = start + length
    records = merged(lines)
    assert steps(records) == list(range(1, last + 1))


def test_numbers_that_are_not_finite_come_back_as_numbers():
    records = merged([line(1, loss="NaN"), line(2, loss="Infinity")])
    assert math.isnan(records[0]["loss"])
    assert records[1]["loss"] == math.inf


def test_a_series_is_where_the_metric_was_reported():
    records = merged([line(1, a=1.0), line(2, b=2.0), line(3, a=3.0)])
    assert series(records, "a") == ([1, 3], [1.0, 3.0])
    assert series(records, "nothing") == ([], [])


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("train/loss", "loss"),
        ("loss", "loss"),
        ("val/loss", "validation"),
        ("validation/loss", "validation"),
        ("val_loss", "validation"),
        ("train/lr", "learning rate"),
        ("learning_rate", "learning rate"),
        ("train/tokens_per_second", "rate"),
        ("tokens/s", "rate"),
        ("train/grad_norm", None),
        ("eval/perplexity", None),
        ("loss_scale", None),
    ],
)
def test_what_a_name_means(name, meaning):
    assert role(name) == meaning
