"""Sending a run to this machine: what is written, what is started once, how it is watched."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending, at_once, is_alive, until
from theseus.dispatch import dispatched, shipping
from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.providers.base import PROVIDERS, LaunchError
from theseus.dispatch.transport import TransportError
from theseus.runs import Run

pytestmark = pytest.mark.slow

SECRET = "hf_0123456789abcdefghij"


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    return Sending(tmp_path, monkeypatch)


def json_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


# What is written


def test_a_run_is_recorded_as_anywhere_else_and_its_secrets_are_gone(sending: Sending) -> None:
    run = sending.submit(sending.spec("dont matter what's here now"))
    assert run.wait(180) == "finished"
    folder = sending.folder(run)
    assert folder.parent == sending.root / "runs/general/default"
    assert folder.name == f"dont-matter-whats-here-now-{run.id}"
    record = json_of(folder / "run.json")
    told = {name: record[name] for name in ("id", "name", "host", "provider", "v", "dirty")}
    assert told == {
        "id": run.id, "name": "dont matter what's here now", "host": "me", "provider": "local",
        "v": 1, "dirty": True,
    }  # fmt: skip
    assert {"by", "bundle", "commit", "created", "resources", "version", "job"} <= record.keys()
    assert record["digest"].startswith(run.id)
    status = json_of(folder / "status.json")
    assert (status["state"], status["attempt"], status["exit"]) == ("finished", 1, 0)
    assert "steps: 3" in (folder / "config.yaml").read_text()
    assert (folder / "results/sum.txt").read_text() == "3"
    assert not (folder / "dispatch.json").exists()
    assert [line["train/loss"] for line in Run(folder).metrics()] == [1, 1 / 2, 1 / 3]
    kinds = [event["kind"] for event in Run(folder).events()]
    assert kinds == ["opened", "environment", *["checkpoint"] * 3, "ended"]


def test_folders_are_for_their_owner_alone(sending: Sending) -> None:
    run = sending.submit()
    run.wait(180)
    for folder in (sending.folder(run), *list(sending.folder(run).parents)[:3]):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert stat.S_IMODE((sending.work / "theseus").stat().st_mode) == 0o700


def test_a_folder_that_somebody_else_has_prepared_is_refused(sending: Sending) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of somebody else's")
    other = sending.work / "theseus"
    other.mkdir(parents=True)
    os.chown(other, 12345, 12345)
    with pytest.raises(shipping.RemoteError, match="theseus belongs to somebody else"):
        sending.submit()
    os.chown(other, 0, 0)
    runs = sending.root / "runs"
    runs.parent.mkdir(parents=True, exist_ok=True)
    runs.symlink_to(sending.tmp)
    with pytest.raises(shipping.RemoteError, match="runs belongs to somebody else"):
        sending.submit()


def test_the_bundle_never_changes_and_is_sent_once(sending: Sending) -> None:
    sent: list[tuple[int, int | None]] = []
    first = sending.submit(sending.spec("one"), progress=lambda *now: sent.append(now))
    assert sent[0][0] == 0
    assert sent[-1][0] == sent[-1][1]
    second = sending.submit(sending.spec("two"))
    bundles = list((sending.work / "theseus/bundles").iterdir())
    assert len(bundles) == 1
    assert sum(line.startswith("sending ") for line in sending.told) == 1
    assert not os.access(bundles[0] / "project" / f"{sending.module}.py", os.W_OK) or (
        stat.S_IMODE((bundles[0] / "project").stat().st_mode) & 0o222 == 0
    )
    (sending.project / "new.txt").write_text("another content")
    third = sending.submit(sending.spec("three"))
    assert len(list((sending.work / "theseus/bundles").iterdir())) == 2
    assert {run.wait(180) for run in (first, second, third)} == {"finished"}


def test_logs_data_and_results_lie_where_the_cluster_says(sending: Sending) -> None:
    places = {
        name: sending.tmp / f"its {name}" for name in ("log", "data", "checkpoints", "results")
    }
    sending.write_inventory(
        cluster="\n    ".join(f"{name}: {json.dumps(str(path))}" for name, path in places.items())
    )
    run = sending.submit()
    assert run.wait(180) == "finished"
    folder = sending.folder(run)
    assert (places["log"] / folder.name / "0.log").read_text() == (folder / "log/0.log").read_text()
    assert (places["results"] / folder.name / "sum.txt").read_text() == "3"
    assert (places["checkpoints"] / folder.name / "step").read_text() == "3"
    assert (sending.root / "data").resolve() == places["data"].resolve()


def test_secrets_reach_the_job_and_no_file_that_stays(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    sending.write_inventory(host='env: {HF_TOKEN: "${oc.env:HF_TOKEN}", COLOR: "deep \'blue\'"}')
    run = sending.submit(sending.spec(pause=0.2, steps=20))
    order = sending.folder(run) / "dispatch.json"
    assert stat.S_IMODE(order.stat().st_mode) == 0o600
    log = until(lambda: "secret is" in str(run.logs()) and str(run.logs()))
    assert f"secret is {len(SECRET)} long, color deep 'blue'" in log
    assert run.cancel() == "cancelled"
    assert not order.exists()
    for folder in (sending.root, sending.work, sending.tmp / "state"):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in "".join(sending.told)


# Started once


def test_the_same_submission_finds_the_run_while_it_works_and_when_it_has_finished(
    sending: Sending,
) -> None:
    spec = sending.spec(pause=0.1, steps=15)
    first = sending.submit(spec)
    second = sending.submit(spec)
    assert second.id == first.id
    assert first.wait(180) == "finished"
    assert sending.submit(spec).state == "finished"
    assert json_of(sending.folder(first) / "status.json")["attempt"] == 1
    assert [path.parent.name for path in sending.root.glob("runs/*/*/*/run.json")] == [
        sending.folder(first).name
    ]
    assert "has finished on me" in sending.told[-1]


def test_another_name_configuration_or_code_is_another_run(sending: Sending) -> None:
    ids = {
        sending.submit(sending.spec()).id,
        sending.submit(sending.spec("other")).id,
        sending.submit(sending.spec(steps=4)).id,
    }
    path = sending.project / f"{sending.module}.py"
    path.write_text(path.read_text().replace('print("secret', 'print("the secret'))
    import importlib
    import sys

    importlib.invalidate_caches()
    sending.job = importlib.reload(sys.modules[sending.module]).Count
    ids.add(sending.submit(sending.spec()).id)
    assert len(ids) == 4
    for word in ids:
        DispatchedRun.find(word).wait(180)


def test_a_failed_run_goes_on_from_its_checkpoint_in_the_same_folder(sending: Sending) -> None:
    spec = sending.spec(steps=5, fail_at=3)
    first = sending.submit(spec)
    assert first.wait(180) == "failed"
    assert first.look().reason == "RuntimeError: as asked"
    second = sending.submit(spec)
    assert second.folder == first.folder
    assert second.wait(180) == "finished"
    events = Run(sending.folder(second)).events()
    assert [event["step"] for event in events if event["kind"] == "resumed"] == [3]
    status = json_of(sending.folder(second) / "status.json")
    assert (status["state"], status["attempt"]) == ("finished", 2)
    assert second.entry.attempt == 2
    assert [line["step"] for line in second.metrics()] == [1, 2, 3, 4, 5]


def test_fresh_is_another_run_beside_the_first(sending: Sending) -> None:
    first = sending.submit()
    first.wait(180)
    second = sending.submit(fresh=True)
    third = sending.submit(fresh=True)
    assert len({first.id, second.id, third.id}) == 3
    assert {run.wait(180) for run in (second, third)} == {"finished"}
    assert sending.submit().id == third.id


def test_two_who_submit_at_once_start_it_once(sending: Sending) -> None:
    spec = sending.spec(pause=0.1, steps=10)
    first, second = at_once(lambda: sending.submit(spec), lambda: sending.submit(spec))
    assert first.id == second.id
    assert first.wait(180) == "finished"
    assert str(first.logs()).count("theseus: begins on") == 1


def test_a_lost_answer_to_the_launch_is_found_by_submitting_again(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = type(PROVIDERS["local"])
    launch = local.launch

    def unheard(self: Any, host: Any, transport: Any, order: Any) -> Any:
        launch(self, host, transport, order)
        raise TransportError("me", "lost", "the connection ended before the answer was complete")

    spec = sending.spec(pause=0.1, steps=15)
    monkeypatch.setattr(local, "launch", unheard)
    with pytest.raises(TransportError):
        sending.submit(spec)
    monkeypatch.setattr(local, "launch", launch)
    run = sending.submit(spec)
    assert run.wait(180) == "finished"
    assert str(run.logs()).count("theseus: begins on") == 1
    assert json_of(sending.folder(run) / "status.json")["attempt"] == 1


def test_a_launch_that_was_refused_can_be_repeated(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = type(PROVIDERS["local"])
    launch = local.launch

    def refuse(self: Any, *_: Any) -> Any:
        raise LaunchError("host 'me': no")

    monkeypatch.setattr(local, "launch", refuse)
    with pytest.raises(LaunchError):
        sending.submit()
    monkeypatch.setattr(local, "launch", launch)
    assert sending.submit().wait(180) == "finished"


def test_a_run_that_another_machine_submitted_is_found_on_the_host(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = sending.spec(pause=0.1, steps=20)
    first = sending.submit(spec)
    monkeypatch.setenv("XDG_STATE_HOME", str(sending.tmp / "another state"))
    second = sending.submit(spec)
    assert second.folder == first.folder
    assert second.wait(180) == "finished"
    assert str(second.logs()).count("theseus: begins on") == 1


def test_a_run_whose_processes_were_killed_is_lost_and_goes_on(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatched, "_SURE", 1.0)
    spec = sending.spec(pause=0.1, steps=12)
    run = sending.submit(spec)
    until(lambda: len(run.metrics()) > 2)
    group = int(run.entry.handle["pid"])
    os.killpg(group, signal.SIGKILL)
    state = run.settle(90)
    assert state.word == "lost"
    assert "killed" in str(state)
    again = sending.submit(spec)
    assert again.wait(180) == "finished"
    assert json_of(sending.folder(again) / "status.json")["attempt"] == 2


# Watching


def test_the_log_is_followed_to_its_end(sending: Sending) -> None:
    run = sending.submit(sending.spec(pause=0.1, steps=8))
    text = "".join(run.logs(follow=True))
    assert text == (sending.folder(run) / "log/0.log").read_text()
    assert "step 8  train/loss" in text
    assert run.entry.state == "finished"
    assert str(run.logs(tail=1)).count("\n") == 1


def test_a_thread_an_event_loop_and_a_cell_can_all_watch(sending: Sending) -> None:
    run = sending.submit(sending.spec(pause=0.05, steps=10))
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append("".join(run.logs(follow=True))))
    thread.start()

    async def cell() -> tuple[str, str]:
        again = sending.submit(sending.spec(pause=0.05, steps=10))  # inside of a running loop
        return again.state, await run  # a blocked cell asks, another waits

    before, after = asyncio.run(cell())
    thread.join()
    assert before in {"queued", "preparing", "running", "finished"}
    assert after == "finished"
    assert "step 10" in texts[0]


def test_another_process_of_the_user_sees_the_run(sending: Sending) -> None:
    run = sending.submit(sending.spec("my run"))
    for word in ("my run", run.id, run.id[:4], "latest"):
        assert DispatchedRun.find(word).id == run.id
    assert run.wait(180) == "finished"


def test_cancel_ends_everything_that_was_started(sending: Sending) -> None:
    run = sending.submit(sending.spec(pause=0.2, steps=500, child=True))
    line = until(
        lambda: [line for line in str(run.logs()).splitlines() if line.startswith("child ")]
    )
    child = int(line[0].split()[1])
    assert is_alive(child)
    assert run.cancel() == "cancelled"
    assert not is_alive(child)
    assert not is_alive(int(run.entry.handle["pid"]))
    assert run.state == "cancelled"
    assert run.cancel() == "cancelled"
    assert json_of(sending.folder(run) / "status.json")["state"] == "cancelled"


def test_fetch_brings_records_log_and_results_and_nothing_twice(
    sending: Sending, tmp_path: Path
) -> None:
    run = sending.submit()
    run.wait(180)
    here = run.fetch(tmp_path / "fetched")
    there = sending.folder(run)
    for name in ("run.json", "status.json", "metrics.jsonl", "log/0.log", "results/sum.txt"):
        assert (here / name).read_bytes() == (there / name).read_bytes()
    assert not (here / "checkpoints").exists()
    assert not (here / "start.sh").exists()
    (here / "results/sum.txt").chmod(0o400)
    stamp = (here / "results/sum.txt").stat().st_ino
    run.fetch(here, checkpoints=True)
    assert (here / "checkpoints/step").read_text() == "3"
    assert (here / "results/sum.txt").stat().st_ino == stamp
    assert [line["step"] for line in Run(here).metrics()] == [1, 2, 3]
