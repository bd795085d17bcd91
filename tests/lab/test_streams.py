"""Streams: that the registry has changed, and one run as it grows."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending
from tests.lab.conftest import SECRET, Ask, entry, our_threads, until
from theseus.dispatch._log_copy import Lock
from theseus.dispatch.secrets import Secret
from theseus.lab import keeping, tailing
from theseus.lab.feeding import CARD, RunFeed
from theseus.lab.tailing import REACH, WINDOW, Tail


async def test_a_run_that_is_written_by_another_process_appears_within_two_seconds(
    stream: Any, ask: Ask, sending: Sending
) -> None:
    async with stream("events") as seen:
        first = (await seen.until(lambda s: s.of("runs")))[0]["mark"]
        await asyncio.sleep(0.7)
        assert len(seen.of("runs")) == 1  # nothing has changed
        began = time.monotonic()
        sending.registry.put(entry(state="finished"))
        await seen.until(lambda s: len(s.of("runs")) == 2, 2)
        found = await ask("runs", since=first)
        assert time.monotonic() - began < 2
        assert [one["id"] for one in found["runs"]] == ["abcdef12"]
        assert found["mark"] == seen.of("runs")[1]["mark"]
        # One that is removed is told of, too; a list that was never had is whole.
        sending.registry.path("abcdef12").unlink()
        await seen.until(lambda s: len(s.of("runs")) == 3, 2)
        assert (await ask("runs", since=found["mark"]))["gone"] == ["abcdef12"]
        assert (await ask("runs", since="0000-1"))["whole"]


@pytest.mark.slow
async def test_while_it_is_looked_at_a_run_at_work_is_asked_and_read(
    stream: Any, ask: Ask, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "PATIENCE", 0.5)
    run = await asyncio.to_thread(sending.submit, sending.spec(steps=2000, pause=0.05))
    assert "keeper" not in "".join(our_threads())
    # Somebody else reads its log, in a terminal perhaps, and is slow: nothing else waits for that.
    reading = Lock(sending.registry.copies(run.id) / "log")
    assert reading.take()

    async def shown(what: str) -> dict[str, Any]:
        end = time.monotonic() + 30
        while not ((one := (await ask("runs"))["runs"][0])[what] and one["state"] == "running"):
            assert time.monotonic() < end
            await asyncio.sleep(0.2)
        return dict(one)

    async with stream("events"):
        one = await shown("spark")
        assert one["last_line"] == ""
        reading.release()
        one = await shown("last_line")
        assert "step" in one["last_line"]
        assert one["spark"][0] == 1.0
        assert one["elapsed"] is not None
        assert one["can"] == ["cancel", "fetch"]
        assert one["connection"] == ""
    await asyncio.to_thread(run.cancel)
    await until(no_threads)


@pytest.mark.slow
async def test_a_stream_follows_a_run_to_its_end(stream: Any, ask: Ask, sending: Sending) -> None:
    run = await asyncio.to_thread(sending.submit, sending.spec("<b>me</b>", steps=8, pause=0.05))
    async with stream(f"runs/{run.id}/stream?points=0&curves=1") as seen:
        await seen.until(lambda s: s.of("end"))
        await seen.until(lambda s: s.ended)
    log = (sending.folder(run) / "log/0.log").read_bytes()
    parts = seen.of("log")
    assert parts[0]["from"] == 0
    assert all(one["to"] == other["from"] for one, other in itertools.pairwise(parts))
    assert parts[-1]["to"] == len(log)
    assert "".join(part["text"] for part in parts).encode() == log
    assert [row["step"] for rows in seen.of("points") for row in rows["rows"]] == list(range(1, 9))
    assert seen.of("curves")[0]["after"] == -1
    assert [s for piece in seen.of("curves") for s in piece["train"]["step"]] == list(range(1, 9))
    assert seen.of("card")[-1]["state"] == "finished"
    assert seen.of("card")[-1]["name"] == "<b>me</b>"
    assert seen.of("end") == [{"again": False}]
    await until(no_threads)

    # One who comes again has everything, and gets nothing twice.
    async with stream(
        f"runs/{run.id}/stream?points=0", **{"Last-Event-ID": seen.places[-1]}
    ) as again:
        await again.until(lambda s: s.of("end"))
    assert (again.of("log"), again.of("points")) == ([], [])
    # In the middle.
    async with stream(f"runs/{run.id}/stream?log=10&points=5") as part:
        await part.until(lambda s: s.of("end"))
    assert part.of("log")[0]["from"] == 10
    assert "".join(one["text"] for one in part.of("log")).encode() == log[10:]
    assert [row["step"] for row in part.of("points")[0]["rows"]] == [6, 7, 8]


@pytest.mark.slow
async def test_the_next_attempt_is_followed_anew(stream: Any, sending: Sending) -> None:
    recipe = sending.spec(steps=4, fail_at=2)
    run = await asyncio.to_thread(sending.submit, recipe)
    async with stream(f"runs/{run.id}/stream?curves=1") as first:
        await first.until(lambda s: s.of("end"))
        assert first.of("card")[-1]["state"] == "failed"
        again = await asyncio.to_thread(sending.submit, recipe)
        assert (again.id, again.entry.attempt) == (run.id, 2)
        async with stream(f"runs/{run.id}/stream?curves=1") as second:
            await second.until(lambda s: s.of("end"))
    assert second.of("card")[-1]["state"] == "finished"
    assert [step for piece in second.of("curves") for step in piece["train"]["step"]] == [
        1,
        2,
        3,
        4,
    ]
    log = (sending.folder(run) / "log/0.log").read_bytes()
    assert "".join(part["text"] for part in second.of("log")).encode() == log


@pytest.mark.slow
async def test_a_stream_ends_with_its_server(
    stream: Any, sending: Sending, jp_serverapp: Any
) -> None:
    run = await asyncio.to_thread(sending.submit, sending.spec(steps=2000, pause=0.05))
    async with stream("events") as events, stream(f"runs/{run.id}/stream") as seen:
        await seen.until(lambda s: s.of("log"))
        await events.until(lambda s: s.of("runs"))
        assert our_threads()
        (app,) = jp_serverapp.extension_manager.extension_apps["theseus.lab"]
        await app.stop_extension()
        await seen.until(lambda s: s.ended, 3)
        await events.until(lambda s: s.ended, 3)
    assert our_threads() == []
    names = [str(task.get_coro()) for task in asyncio.all_tasks()]
    assert not [name for name in names if "theseus" in name and "test_" not in name]
    await asyncio.to_thread(run.cancel)


def no_threads() -> bool:
    return not [name for name in our_threads() if "reader" not in name]


# A log as it grows, without a server


def text_of(parts: Iterable[Any]) -> str:
    return "".join(part["text"] for part in parts if part is not None)


def test_a_character_is_never_cut_and_offsets_are_those_of_bytes(tmp_path: Path) -> None:
    whole = "loss ↓ 3,4 · 🙂 ü\n" * 5
    data = whole.encode()
    for size in (1, 2, 3, 7):
        path = tmp_path / f"{size}.log"
        path.touch()
        tail, parts = Tail(tmp_path, str(size), (), None), []
        for at in range(0, len(data), size):
            with path.open("ab") as file:
                file.write(data[at : at + size])
            parts.append(tail.read(100, last=False))
        parts.append(tail.read(100, last=True))
        assert text_of(parts) == whole
        told = [part for part in parts if part is not None]
        assert all(len(one["text"].encode()) == one["to"] - one["from"] for one in told)
        assert "�" not in text_of(parts)
        assert tail.done


def test_what_is_no_text_is_shown_as_such_and_ends(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(b"\xff\xfe\x80\xe2\x82")
    tail = Tail(tmp_path, "0", (), None)
    parts = [tail.read(100, last=True) for _ in range(3)]
    assert text_of(parts) == "���" + "�"
    assert tail.done


def test_a_reader_begins_near_the_end_at_a_line(tmp_path: Path) -> None:
    line = b"0123456789" * 10 + b"\n"
    (tmp_path / "0.log").write_bytes(line * 30_000)
    size = len(line) * 30_000
    tail = Tail(tmp_path, "0", (), None)
    first = tail.read(1000, last=False)
    assert first is not None
    assert first["from"] % len(line) == 0
    assert WINDOW - len(line) <= size - first["from"] <= WINDOW
    # From an offset as far as that is near; from one too far back as one who knows nothing.
    near = Tail(tmp_path, "0", (), size - REACH + 7).read(1000, last=False)
    assert near is not None
    assert near["from"] == size - REACH + 7
    far = Tail(tmp_path, "0", (), 5).read(1000, last=False)
    assert far is not None
    assert far["from"] == first["from"]


def test_a_secret_is_covered_wherever_a_reader_begins(tmp_path: Path) -> None:
    data = f"token {SECRET} used\n".encode()
    (tmp_path / "0.log").write_bytes(data)
    hidden = (Secret(SECRET),)
    for start in range(len(data)):
        tail = Tail(tmp_path, "0", hidden, start)
        text = text_of(tail.read(5, last=True) for _ in range(40))
        assert text == data.decode().replace(SECRET, "*" * len(SECRET))[start:]
    # And when it comes in two pieces.
    tail, parts = Tail(tmp_path, "1", hidden, None), []
    for piece in (data[:12], data[12:]):
        with (tmp_path / "1.log").open("ab") as file:
            file.write(piece)
        parts.append(tail.read(100, last=False))
    parts += [tail.read(100, last=True) for _ in range(2)]
    assert SECRET[:8] not in text_of(parts)
    assert text_of(parts).endswith(" used\n")


class Printing:
    """A run whose log grows as fast as the disk takes it."""

    id, name = "abcdef12", "printing"

    def __init__(self, folder: Path) -> None:
        self.log, self.ended = folder / "0.log", False

    def facts(self) -> dict[str, Any]:
        return {"state": "running"}

    def lanes(self) -> dict[str, Path]:
        return {"0": self.log}

    def metrics_file(self) -> Path:
        return self.log.with_name("metrics.log")

    def settled(self) -> bool:
        return self.ended


def test_a_feed_ends_when_another_attempt_begins(tmp_path: Path) -> None:
    source: Any = Printing(tmp_path)
    attempts = iter([1, 1, 2])
    feed = RunFeed(source, {}, points=None, curves=False, hidden=(), attempt=lambda: next(attempts))
    assert [kind for kind, _ in feed.read()] == ["card"]
    assert not feed.ended
    time.sleep(CARD)
    feed.read()
    assert (feed.ended, feed.again) == (True, True)


def test_however_much_is_printed_little_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "WINDOW", 64 * 1024)
    monkeypatch.setattr(tailing, "BEHIND", 128 * 1024)
    source: Any = Printing(tmp_path)
    source.log.write_bytes(b"")
    feed = RunFeed(source, {"0": None}, points=None, curves=False, hidden=())
    line = b"\x1b[32mstep\x1b[0m 12 loss 3.412 " + b"\n"
    sent: list[tuple[float, int]] = []
    offsets: list[tuple[int, int]] = []
    end = time.monotonic() + 1.5
    while not feed.ended:
        if time.monotonic() < end:
            with source.log.open("ab") as file:
                file.write(line * 5000)
        elif not source.ended:
            with source.log.open("ab") as file:
                file.write(b"the end\n")
            source.ended = True
        for kind, data in feed.read():
            if kind == "log":
                size = len(json.dumps(data, ensure_ascii=False).encode())
                sent.append((time.monotonic(), size))
                offsets.append((data["from"], data["to"]))
                last = data["text"]
        time.sleep(0.05)
    assert source.log.stat().st_size > 2e6
    assert last.endswith("the end\n")
    assert offsets[-1][1] == source.log.stat().st_size
    assert any(one[1] < other[0] for one, other in itertools.pairwise(offsets))  # left out
    for start, _ in sent:
        assert sum(size for at, size in sent if start <= at < start + 1) <= 200_000
