from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.runs import words
from theseus.runs.card import card
from theseus.runs.pace import Pace
from theseus.runs.summary import Progress, Summary

RUNNING = Summary(
    name="train-gpt",
    id="7f3a1c00",
    job="gpt/train/pretrain",
    folder=Path("/root/runs/general/default/train-gpt-7f3a1c00"),
    state="running",
    host="mycoolbox",
    progress=Progress(1240, 3814, "steps", {"mood": "good"}, 2.0, 2460.0),
    latest={
        "train/loss": 3.41,
        "val/loss": 3.52,
        "train/lr": 3e-4,
        "train/tokens_per_second": 182e3,
    },
    best={"value": 3.5, "step": 1200},
    checkpoint=1200,
)


def test_the_text_form_holds_the_facts_in_their_order():
    first, folder = RUNNING.text().split("\n")
    assert first == (
        "train-gpt 7f3a1c00  running  mycoolbox  step 1,240/3,814 (33 %)  loss 3.410  "
        "val loss 3.520 (best 3.500 at 1,200)  lr 3.0e-4  182k tok/s  mood good  41 min left"
    )
    assert folder == "folder  /root/runs/general/default/train-gpt-7f3a1c00"


def test_the_words_of_each_state():
    finished = replace(RUNNING, state="finished", elapsed=130.0)
    assert "finished in 2 min 10 s" in finished.text()
    assert "left" not in finished.text()
    cancelled = replace(RUNNING, state="cancelled", reason="interrupted")
    assert "cancelled (interrupted)" in cancelled.text()
    failed = replace(RUNNING, state="failed", reason="ValueError: no")
    assert failed.text().split("\n")[1] == "ValueError: no"
    assert replace(RUNNING, attempt=2).headline == "running (attempt 2)"


def test_how_to_go_on_depends_on_what_was_saved():
    assert RUNNING.next_step("Run it again") == "Run it again to go on from step 1,200."
    assert "no checkpoint" in replace(RUNNING, checkpoint=None).next_step("Run it again")


def test_a_job_that_counts_something_else_says_what():
    tokens = replace(
        RUNNING, latest={}, best=None, progress=Progress(5e6, 1e7, "tokens", {}, 2.5e6, 2.0)
    )
    assert "5,000,000/10,000,000 tokens (50 %)  2.5M tok/s  2 s left" in tokens.text()
    assert replace(tokens, progress=Progress(12, None, "documents")).position == "12 documents"
    assert replace(tokens, progress=None).position == ""


def test_nothing_is_said_twice():
    tokenizing = replace(
        RUNNING,
        latest={"data/tokens": 5000, "data/documents": 12},
        best=None,
        progress=Progress(
            5000, 10_000, "tokens", {"documents": 13, "rate": 1e3, "remaining": 5.0}, 1e3, 5.0
        ),
    )
    line = tokenizing.text().split("\n")[0]
    assert line.endswith("5,000/10,000 tokens (50 %)  1.0k tok/s  documents 13  5 s left")


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open = set(), "", 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open += 1

    def handle_endtag(self, tag):
        self.open -= 1

    def handle_data(self, data):
        self.text += data


@given(st.text(), st.text(), st.text())
def test_no_text_becomes_markup(name, reason, note):
    hostile = replace(
        RUNNING,
        name=f"<script>{name}",
        state="failed",
        reason=f"</div><img src=x onerror=1>{reason}",
        latest={f"<b>{name}": 1.0},
        host="<i>&amp;",
        folder=Path("/tmp") / "<u>'\"",
    )
    page = Page(card(hostile, note=f"<a href=1>{note}"))
    assert page.tags - {"code"} == {"div", "span", "strong"}
    assert page.open == 0
    assert "<script>" in page.text


def test_the_card_says_what_the_text_form_says():
    page = Page(card(RUNNING, note="Goes on from step 1,200."))
    for fact in ("train-gpt", "7f3a1c00", "● running", "mycoolbox", "step 1,240/3,814 (33 %)"):
        assert fact in page.text
    for fact in ("3.410", "3.520", "best 3.500 at 1,200", "3.0e-4", "182k tok/s", "41 min left"):
        assert fact in page.text
    assert "Goes on from step 1,200." in page.text


def test_control_characters_do_not_reach_a_terminal():
    hostile = replace(RUNNING, name="a\x1b]0;title\x07\r\nb\u202e", host="\x1b[31m")
    text = hostile.text()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert len(text.split("\n")) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.41234, "3.412"),
        (10.8123, "10.81"),
        (123.456, "123.5"),
        (54321.9, "54,322"),
        (3e-4, "3.0e-4"),
        (0.0123, "0.0123"),
        (0.0, "0"),
        (-2.5, "-2.500"),
        (7, "7"),
        (1240, "1,240"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1.5e12, "1.5e12"),
    ],
)
def test_numbers(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.34, "0.3 s"),
        (12.4, "12 s"),
        (60, "1 min"),
        (130, "2 min 10 s"),
        (3600, "1 h"),
        (11100, "3 h 5 min"),
        (200000, "2 d 7 h"),
    ],
)
def test_durations(seconds, text):
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s left"), (41, "41 s left"), (127, "2 min 10 s left"), (2460, "41 min left")],
)
def test_estimates(seconds, text):
    assert words.remaining(seconds) == text


@pytest.mark.parametrize(
    ("per_second", "unit", "text"),
    [
        (182_345, "tokens", "182k tok/s"),
        (1_240_000, "tokens", "1.2M tok/s"),
        (3.24, "steps", "3.2 step/s"),
        (0.25, "steps", "0.25 step/s"),
        (950, "documents", "950 doc/s"),
    ],
)
def test_rates(per_second, unit, text):
    assert words.rate(per_second, unit) == text


def test_the_pace_is_that_of_the_last_while_and_leaves_out_the_first_step():
    pace = Pace()
    assert pace.rate is None
    pace.add(0.0, 0, "steps")
    pace.add(30.0, 1, "steps")  # compiles
    assert pace.rate is None
    for step in range(2, 10):
        pace.add(30.0 + (step - 1) * 0.5, step, "steps")
    assert pace.rate == pytest.approx(2.0)
    assert pace.remaining(9, 29) == pytest.approx(10.0)
    assert pace.remaining(9, None) is None


def test_a_new_phase_begins_a_new_pace():
    pace = Pace()
    for second in range(5):
        pace.add(second, second * 100, "documents")
    pace.add(5, 1, "tokens")
    pace.add(6, 2, "tokens")
    assert pace.rate is None
    pace.add(7, 12, "tokens")
    assert pace.rate == pytest.approx(10.0)


def test_the_pace_forgets_what_is_long_ago():
    pace = Pace()
    for second in range(100):
        pace.add(second, second, "steps")
    for second in range(100, 300):
        pace.add(second, 100 + (second - 100) * 5, "steps")
    assert pace.rate == pytest.approx(5.0)
