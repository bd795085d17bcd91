"""A run's log and metrics as bytes: text whatever is in it, and no secret."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dispatch.sending import Sending
from tests.lab.conftest import SECRET, Ask, entry
from theseus.dispatch.secrets import Secret
from theseus.lab import covering
from theseus.lab.listing import Listing
from theseus.lab.spark import POINTS, spark

HOSTILE = b"<script>alert(1)</script>\r\n\x1b]8;;http://evil\x07click\x1b]8;;\x07\x00\xff\xfe end\n"


@pytest.fixture
def known(sending: Sending, monkeypatch: pytest.MonkeyPatch) -> Sending:
    """A user whose usual inventory has a host with a secret, and a run that has ended there."""
    sending.write_inventory(host=f"env: {{HF_TOKEN: {SECRET}}}")
    monkeypatch.setenv("THESEUS_CONFIG", str(sending.inventory))
    sending.registry.put(entry(state="finished"))
    return sending


def copy_of(sending: Sending, what: str, name: str) -> Path:
    path = sending.registry.copies("abcdef12") / what / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


async def test_a_log_is_text_whatever_is_in_it(known: Sending, jp_fetch: Any) -> None:
    copy_of(known, "log", "0").write_bytes(HOSTILE)
    answer = await jp_fetch("theseus/api/runs/abcdef12/log")
    assert answer.body == HOSTILE
    headers = answer.headers
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"].startswith("attachment;")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Theseus-Size"] == str(len(HOSTILE))


async def test_a_part_of_a_log(known: Sending, jp_fetch: Any) -> None:
    data = bytes(range(256)) * 3000
    copy_of(known, "log", "0").write_bytes(data)

    async def part(**arguments: int) -> bytes:
        answer = await jp_fetch("theseus/api/runs/abcdef12/log", params=arguments)
        return bytes(answer.body)

    assert await part() == data
    assert await part(**{"from": 1000, "to": 600_001}) == data[1000:600_001]
    assert await part(**{"from": 700_000}) == data[700_000:]
    assert await part(**{"from": 999_999_999}) == b""
    assert await part(**{"from": 5, "to": 3}) == b""


async def test_a_secret_is_covered_in_logs_lines_and_metrics(
    known: Sending, jp_fetch: Any, ask: Ask, stream: Any
) -> None:
    copy_of(known, "log", "0").write_text(f"begins\nthe token {SECRET}\n")
    copy_of(known, "metrics", "metrics").write_text(
        json.dumps({"v": 1, "step": 1, "train/loss": 2.0, "note": SECRET}) + "\n"
    )
    answer = await jp_fetch("theseus/api/runs/abcdef12/log")
    assert answer.body == f"begins\nthe token {'*' * len(SECRET)}\n".encode()
    found = [await ask("runs"), await ask("runs/abcdef12"), await ask("runs/abcdef12/metrics")]
    assert found[0]["runs"][0]["last_line"] == f"the token {'*' * len(SECRET)}"
    assert found[2]["rows"] == [{"step": 1, "train/loss": 2.0, "note": "••••"}]
    async with stream("runs/abcdef12/stream?points=0") as seen:
        await seen.until(lambda s: s.of("log") and s.of("points"))
        assert SECRET[:6] not in json.dumps([found, seen.events])


async def test_where_what_to_cover_is_not_known_nothing_is_shown(known: Sending, ask: Ask) -> None:
    copy_of(known, "log", "0").write_text(f"the token {SECRET}\n")
    known.inventory.write_text("hosts: {me: {type: locl}}")
    code, told = await ask("runs/abcdef12/log")
    assert code == 400
    assert "did you mean 'local'" in told["message"]
    assert (await ask("runs"))["runs"][0]["last_line"] == ""
    # A host that is gone from the inventory: the secrets of all are covered.
    known.write_inventory(host=f"env: {{HF_TOKEN: {SECRET}}}")
    known.registry.put(entry(state="finished", host="gone"))
    assert (await ask("runs"))["runs"][0]["last_line"] == f"the token {'*' * len(SECRET)}"


@given(
    texts=st.lists(st.sampled_from([SECRET, "ab", SECRET[:9], SECRET[9:], "\n", "x" * 40])),
    cuts=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
def test_a_part_shows_what_the_whole_shows(
    texts: list[str], cuts: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = "".join(texts)
    folder = tmp_path_factory.mktemp("copies")
    (folder / "0.log").write_text(data)
    whole = data.replace(SECRET, "*" * len(SECRET)).encode()
    start, end = cuts
    hidden = (Secret(SECRET),)
    parts = list(covering.parts(folder, "0", start, end, hidden))
    assert b"".join(part.data for part in parts) == whole[start:end]


async def test_metrics_come_from_a_line_on(known: Sending, ask: Ask) -> None:
    lines = [json.dumps({"v": 1, "step": n, "train/loss": 1 / n}) for n in range(1, 6)]
    lines[1:1] = ["no record", "[1]", '{"v": 1, "step": 7, "train/loss": "NaN"}']
    copy_of(known, "metrics", "metrics").write_text("\n".join(lines) + '\n{"v": 1, "st')
    found = await ask("runs/abcdef12/metrics")
    assert [row["step"] for row in found["rows"]] == [1, 7, 2, 3, 4, 5]
    assert (found["from"], found["to"], found["more"]) == (0, 8, False)
    rest = await ask("runs/abcdef12/metrics", **{"from": 6})
    assert [row["step"] for row in rest["rows"]] == [4, 5]
    beyond = await ask("runs/abcdef12/metrics", **{"from": 8})
    assert (beyond["rows"], beyond["to"]) == ([], 8)
    card = (await ask("runs/abcdef12"))["card"]
    assert card["v"] == 1
    assert card["curves"]["train"][0] == [1, 1.0]


async def test_the_log_of_a_real_run_is_brought_when_it_is_asked_for(
    sending: Sending, jp_fetch: Any, ask: Ask
) -> None:
    before = await ask("runs")
    assert (before["v"], before["whole"], before["runs"]) == (1, True, [])
    run = await asyncio.to_thread(sending.submit, sending.spec("train <b>me</b>", steps=3))
    await asyncio.to_thread(run.wait)
    found = await ask("runs", since=before["mark"])
    assert (found["whole"], found["gone"]) == (False, [])
    assert [one["name"] for one in found["runs"]] == ["train <b>me</b>"]
    answer = await jp_fetch(f"theseus/api/runs/{run.id}/log")
    assert answer.body == (sending.folder(run) / "log/0.log").read_bytes()
    rows = (await ask(f"runs/{run.id}/metrics"))["rows"]
    assert [row["train/loss"] for row in rows] == [1, 0.5, pytest.approx(1 / 3)]
    (one,) = (await ask("runs"))["runs"]
    assert one["spark"] == [1.0, 0.5, 0.3333]
    card = (await ask(f"runs/{run.id}"))["card"]
    assert (card["state"], card["curves"]["train"][1]) == ("finished", [2, 0.5])


# The sparkline


def metrics(path: Path, losses: list[Any], start: int = 1, attempt: int = 1) -> None:
    with path.open("a") as file:
        for step, loss in enumerate(losses, start=start):
            record = {"v": 1, "step": step, "train/loss": loss, "attempt": attempt, "lr": 0.5}
            file.write(json.dumps(record) + "\n")


def test_a_sparkline_has_the_losses_in_few_points(tmp_path: Path) -> None:
    path = tmp_path / "metrics.log"
    assert spark(path) == []
    metrics(path, [3.0, "NaN", 2.00004, "Infinity"])
    assert spark(path) == [3.0, None, 2.0, None]
    metrics(path, [1.5, 1.25], start=3, attempt=2)  # goes on from step 2
    assert spark(path) == [3.0, None, 1.5, 1.25]


def test_a_sparkline_of_a_long_run_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "metrics.log"
    metrics(path, [20_000 - step for step in range(20_000)])
    found = spark(path)
    assert len(found) <= POINTS
    assert (found[0], found[-1]) == (20_000.0, 1.0)
    assert found == sorted(found, key=lambda loss: -(loss or 0))


async def test_a_folder_is_named_as_the_file_browser_names_it(
    ask: Ask, sending: Sending, jp_root_dir: Path
) -> None:
    for folder, kind, path in (
        (f"{jp_root_dir}/runs/a/b", "local", "runs/a/b"),
        (f"{jp_root_dir}/.runs/a", "local", None),
        (f"{jp_root_dir}/../a", "local", None),
        ("/elsewhere/a", "local", None),
        (f"{jp_root_dir}/runs/a/b", "plain", None),  # the same path, on another machine
    ):
        sending.registry.put(entry(state="finished", folder=folder, kind=kind))
        assert (await ask("runs"))["runs"][0]["path"] == path, folder
        assert (await ask("runs/abcdef12"))["path"] == path


def test_the_list_gives_only_what_has_changed(sending: Sending) -> None:
    listing = Listing()
    for number in range(3):
        sending.registry.put(entry(f"abcdef1{number}", state="finished", submitted=1e9 + number))
    assert listing.runs()["runs"] == []  # they ended long ago
    whole = listing.runs(everything=True)
    assert [one["id"] for one in whole["runs"]] == ["abcdef12", "abcdef11", "abcdef10"]
    assert listing.mark() == whole["mark"]
    copy_of(sending, "log", "0").write_text("new\n")
    changed = listing.runs(whole["mark"], everything=True)
    assert [(one["id"], one["last_line"]) for one in changed["runs"]] == [("abcdef12", "new")]
    assert Listing().runs(whole["mark"], everything=True)["whole"]  # another server's mark
