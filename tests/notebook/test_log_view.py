"""A view of a log is sent what it can take: the newest text, in messages of a bounded size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch.secrets import Secret
from theseus.notebook import log_view
from theseus.notebook.log_view import LogFeed, Part, plain, tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


def text_of(parts: list[Part]) -> str:
    return "".join(part.get("text", "") for part in parts)


def test_what_is_added_comes_once_and_in_order(log: Path) -> None:
    feed = LogFeed(lambda: {"0": log})
    assert feed.read(1000) == []
    log.write_text("one\ntwo")
    assert feed.read(1000) == [{"lane": "0", "text": "one\ntwo"}]
    assert feed.read(1000) == []
    with log.open("a") as file:
        file.write("\nthree\n")
    assert feed.read(1000) == [{"lane": "0", "text": "\nthree\n"}]


def test_a_character_that_is_cut_by_the_writer_comes_whole(log: Path) -> None:
    feed = LogFeed(lambda: {"0": log})
    whole = "é€👩".encode()
    got = ""
    for end in range(1, len(whole) + 1):
        log.write_bytes(whole[:end])
        got += text_of(feed.read(1000))
    assert got == "é€👩"


@given(st.lists(st.text(alphabet='ab\n\x1b"\\é€👩\x00', max_size=400), max_size=6))
def test_a_message_is_never_larger_than_its_budget_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[str]
) -> None:
    log = tmp_path_factory.mktemp("log") / "0.log"
    feed = LogFeed(lambda: {"0": log})
    got = ""
    with log.open("wb") as file:
        for chunk in chunks:
            file.write(chunk.encode())
            file.flush()
            for _ in range(200):
                parts = feed.read(512)
                assert len(json.dumps(parts, ensure_ascii=False).encode()) <= 512 + 64
                got += text_of(parts)
                if not feed.behind:
                    break
    assert got == "".join(chunks)


def test_a_long_log_begins_near_its_end_and_says_what_is_left_out(log: Path) -> None:
    lines = [f"line {n:06d}\n" for n in range(100_000)]
    log.write_text("".join(lines))
    parts = LogFeed(lambda: {"0": log}).read(400_000)
    got = text_of(parts)
    assert got.endswith("line 099999\n")
    assert got.startswith("line ")  # from the beginning of one
    assert len(got) <= log_view.WINDOW
    left = (log.stat().st_size - len(got)) / 1e3
    assert parts[0]["note"] == f"… {left:.1f} KB are not shown here; all of it is in {log}"


def test_a_view_that_falls_behind_goes_on_near_the_end(log: Path) -> None:
    feed = LogFeed(lambda: {"0": log})
    log.write_text("begin\n")
    feed.read(1000)
    with log.open("a") as file:
        file.write("x" * 99 + "\n" + "y" * 2_000_000 + "\nlast\n")
    first = feed.read(1000)
    assert "2.0 MB" not in first[0]["note"]
    assert "1.7 MB" in first[0]["note"]
    rest = ""
    while feed.behind:
        rest += text_of(feed.read(40_000))
    assert rest.endswith("\nlast\n")
    assert len(rest) <= log_view.WINDOW


def test_several_logs_share_a_budget(tmp_path: Path) -> None:
    logs = {str(n): tmp_path / f"{n}.log" for n in range(3)}
    for path in logs.values():
        path.write_text("a line\n" * 2000)
    feed = LogFeed(lambda: logs)
    seen: dict[str, int] = dict.fromkeys(logs, 0)
    for _ in range(6):
        for part in feed.read(2000):
            seen[part["lane"]] += len(part.get("text", ""))
    assert max(seen.values()) < 1.5 * min(seen.values())


def test_a_tail_is_plain_text_and_bounded(log: Path) -> None:
    log.write_bytes(
        b"first\n\x1b[31mred\x1b[0m\n 1%\r50%\r100%\nwork\r\x1b[2Kok\nbell\x07 \xff\n<b>last</b>"
    )
    assert tail(log, 4) == "100%\nok\nbell\\x07 \ufffd\n<b>last</b>"
    assert tail(log, 100).startswith("first\nred\n")
    log.write_text("x" * 100_000 + "\n")
    assert tail(log, 10) == ""
    log.write_text("line\n" * 100_000)
    assert len(tail(log, 10_000)) <= 8000
    assert tail(log.with_name("none"), 5) == ""


def test_what_overwrote_itself_is_gone_from_plain_text() -> None:
    assert plain("abc\b\bX") == "aXc"
    assert plain("\x1b]8;;http://example.invalid\x07click\x1b]8;;\x07") == "click"
    assert plain("a\tb") == "a    b"


SECRET = "hf_0123456789abcdefghij"


@given(cuts=st.lists(st.integers(0, 80), max_size=4), budget=st.integers(300, 600))
def test_a_secret_is_covered_however_it_comes(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], budget: int
) -> None:
    log = tmp_path_factory.mktemp("log") / "0.log"
    feed = LogFeed(lambda: {"0": log}, [Secret(SECRET)])
    data = f"the token {SECRET}, and again {SECRET}"
    got = ""
    at = 0
    for end in [*sorted(cuts), len(data)]:
        with log.open("a") as file:
            file.write(data[at:end])
        at = max(at, end)
        got += text_of(feed.read(budget))
        assert SECRET[:4] not in got
    got += text_of(feed.read(budget, last=True))
    stars = "*" * len(SECRET)
    assert got == f"the token {stars}, and again {stars}"
    assert tail(log, 5, hidden=[Secret(SECRET)]) == got


def test_the_end_of_a_log_is_shown_although_it_could_begin_a_secret(log: Path) -> None:
    feed = LogFeed(lambda: {"0": log}, [Secret(SECRET)])
    log.write_text("it ends with h")
    got = text_of(feed.read(1000))
    assert got == "it ends with "
    assert text_of(feed.read(1000, last=True)) == "h"
