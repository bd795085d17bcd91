"""The runs that the browser lists."""

from __future__ import annotations

from tests.dispatch.sending import Sending
from tests.lab.conftest import Ask


async def test_without_runs_the_list_is_empty(ask: Ask) -> None:
    found = await ask("runs")
    assert (found["v"], found["runs"], found["whole"]) == (1, [], True)


async def test_a_run_that_was_submitted_elsewhere_is_listed(ask: Ask, sending: Sending) -> None:
    before = (await ask("runs"))["mark"]
    run = sending.submit(sending.spec("train <b>me</b>", steps=3))
    run.wait()
    found = await ask("runs", since=before)
    assert not found["whole"]
    (one,) = found["runs"]
    assert (one["id"], one["name"], one["state"]) == (run.id, "train <b>me</b>", "finished")
