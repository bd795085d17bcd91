"""What a run's folder holds after each way that a run can go."""

import json
import os
import stat
import threading
import time

import pytest
from omegaconf import OmegaConf

from tests.runs.helpers import small_job, start_python
from theseus.errors import UserError
from theseus.job import StopRequested
from theseus.runs import Run, list_runs
from theseus.runs.claim import RunBusyError
from theseus.runs.files import RecordError

HOSTILE = [
    "dont matter what's here now",
    "../../../escape",
    "a/b\\c",
    "",
    "..",
    "日本語 🚀",
    "x" * 500,
    "-rf *",
    "line\nbreak\tand\x1b[31mcolour",
    "<script>alert(1)</script>",
]


def kinds(run):
    return [event["kind"] for event in run.events()]


def test_a_finished_run_leaves_what_the_records_promise(root):
    run = small_job(root, "my run", project="a/b", group="first one")()
    assert run.folder == root / "runs" / "a-b" / "first-one" / f"my-run-{run.id}"
    assert {path.name for path in run.folder.iterdir()} == {
        "run.json",
        "config.yaml",
        "status.json",
        "metrics.jsonl",
        "events.jsonl",
        "log",
        "checkpoints",
        "results",
    }
    record = json.loads((run.folder / "run.json").read_text())
    assert record["v"] == 1
    assert (record["name"], record["project"], record["group"]) == ("my run", "a/b", "first one")
    assert record["job"] == "tests.runs.helpers:SmallJob"
    assert record["provider"] == "local"
    assert record["packages"].keys() == {"jax", "flax", "optax", "numpy"}
    assert {"created", "by", "host", "resources", "commit", "dirty", "python", "platform"} <= set(
        record
    )
    status = run.status()
    assert (status["state"], status["exit"], status["attempt"]) == ("finished", 0, 1)
    assert status["progress"]["done"] == status["progress"]["total"] == 4
    assert run.config.training.steps == 4
    assert run.series("train/loss") == ([1, 2, 3, 4], [10.0, 5.0, 10 / 3, 2.5])
    assert run.metrics()[1]["tokens"] == 16
    assert kinds(run) == ["opened", "ended"]
    assert "step 3  train/loss 3.33333  lr 0.0003" in run.log_path.read_text()


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_works_and_is_kept_as_written(root, name):
    run = small_job(root, name, project=name, group=name)()
    assert run.folder.parents[3] == root
    assert (run.name, run.project, run.group) == (name, name, name)
    assert [found.id for found in list_runs(root)] == [run.id]
    assert all(character.isprintable() or character == "\n" for character in repr(run))
    assert "<script>" not in run._repr_html_()


def test_a_finished_run_is_shown_and_not_run_again(root):
    calls = []
    first = small_job(root, body=calls.append)()
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")}
    second = small_job(root, body=calls.append)()
    assert second == first
    assert len(calls) == 1
    assert before == {path: path.stat().st_mtime_ns for path in first.folder.rglob("*")}


def test_another_configuration_or_name_is_another_run(root):
    ids = {
        small_job(root)().id,
        small_job(root, steps=5)().id,
        small_job(root, "other")().id,
        small_job(root, project="other")().id,
        small_job(root, group="other")().id,
    }
    assert len(ids) == 5


def test_fresh_makes_a_new_run_which_is_then_the_one_that_goes_on(root):
    first = small_job(root)()
    calls = []

    def fail_once(recorder):
        calls.append(recorder.folder)
        if len(calls) == 1:
            msg = "no luck"
            raise ValueError(msg)

    with pytest.raises(ValueError, match="no luck"):
        small_job(root, body=fail_once)(fresh=True)
    second = small_job(root, body=fail_once)()
    assert second != first
    assert calls == [second.folder, second.folder]
    third = small_job(root)(fresh=True)
    assert len({first.id, second.id, third.id}) == 3
    assert small_job(root)() == third
    assert [run.id for run in list_runs(root)] == [third.id, second.id, first.id]


def test_fresh_never_meets_a_run_whose_predecessor_was_removed(root):
    import shutil

    runs = [small_job(root)(fresh=True) for _ in range(3)]
    shutil.rmtree(runs[1].folder)
    assert small_job(root)(fresh=True).id not in {run.id for run in runs}


def test_an_exception_is_recorded_and_raised(root):
    def body(recorder):
        recorder.progress(3, 10, unit="steps")
        msg = "heads do not divide"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="heads do not divide"):
        small_job(root, body=body)()
    (run,) = list_runs(root)
    assert run.state == "failed"
    assert run.status()["reason"] == "ValueError: heads do not divide"
    assert run.status()["exit"] == 1
    assert run.status()["progress"]["done"] == 3
    error = next(event for event in run.events() if event["kind"] == "error")
    assert (error["type"], error["message"]) == ("ValueError", "heads do not divide")
    log = run.log_path.read_text()
    assert "Traceback" in log
    assert "heads do not divide" in log
    assert "heads do not divide" in repr(run)


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        (StopRequested("stopped at step 3"), "stopped at step 3", 75),
        (KeyboardInterrupt(), "interrupted", 130),
    ],
)
def test_a_stop_is_a_cancellation(root, error, reason, status):
    def body(recorder):
        raise error

    with pytest.raises(type(error)):
        small_job(root, body=body)()
    (run,) = list_runs(root)
    assert run.state == "cancelled"
    assert run.status()["reason"] == reason
    assert run.status()["exit"] == status


def test_the_end_of_the_process_asked_for_by_a_job_is_a_failure(root):
    def body(recorder):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        small_job(root, body=body)()
    (run,) = list_runs(root)
    assert (run.state, run.status()["exit"]) == ("failed", 3)


def test_an_unfinished_run_goes_on_in_its_folder(root):
    def first(recorder):
        for step in range(1, 7):
            recorder.report(step, {"train/loss": float(step)})
            if step == 4:
                recorder.event("checkpoint", step=4)
        msg = "power cut"
        raise RuntimeError(msg)

    def second(recorder):
        assert recorder.attempt == 2
        recorder.event("resumed", step=4)
        for step in (5, 6, 7):
            recorder.report(step, {"train/loss": step * 10.0})

    with pytest.raises(RuntimeError):
        small_job(root, body=first)()
    (run,) = list_runs(root)
    assert "go on from step 4" in run.summary().next_step("Run it again")
    assert small_job(root, body=second)() == run
    assert run.state == "finished"
    assert run.series("train/loss") == ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 50, 60, 70])
    assert len((run.folder / "metrics.jsonl").read_text().splitlines()) == 9
    assert kinds(run)[-3:] == ["opened", "resumed", "ended"]
    assert run.status()["elapsed"] > 0


def test_the_time_of_earlier_attempts_counts(root):
    def body(recorder):
        time.sleep(0.05)
        if recorder.attempt == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_job(root, body=body)()
    assert small_job(root, body=body)().status()["elapsed"] >= 0.1


def test_a_process_that_was_killed_leaves_a_run_that_the_next_one_continues(root):
    code = """
import os, signal, sys
from pathlib import Path
from tests.runs.helpers import small_job

def body(recorder):
    for step in range(1, 6):
        recorder.report(step, {"train/loss": float(step)})
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

small_job(Path(sys.argv[1]), body=body)()
"""
    process = start_python(code, root)
    process.communicate(timeout=60)
    assert process.returncode == -9
    (run,) = list_runs(root)
    assert json.loads((run.folder / "status.json").read_text())["state"] == "running"
    assert run.state == "lost"
    assert "is gone" in run.status()["reason"]
    assert len(run.metrics()) == 5  # nothing that was reported is lost
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"v": 1, "step": 6, "tr')

    seen = []
    again = small_job(root, body=lambda recorder: seen.append(recorder.attempt))()
    assert again == run
    assert seen == [2]
    assert run.state == "finished"
    assert len(run.metrics()) == 5


def test_a_run_that_another_process_works_on_is_refused_with_its_pid(root):
    code = """
import sys
from pathlib import Path
from tests.runs.helpers import small_job

def body(recorder):
    print("ready", flush=True)
    sys.stdin.readline()

small_job(Path(sys.argv[1]), body=body)()
"""
    process = start_python(code, root)
    try:
        assert process.stdout.readline() == "ready\n"
        (run,) = list_runs(root)
        assert run.state == "running"
        with pytest.raises(RunBusyError, match=rf"process {process.pid} on .*fresh=True"):
            small_job(root)()
        other = small_job(root)(fresh=True)
        assert other.state == "finished"
        assert run.state == "running"
    finally:
        process.communicate("\n", timeout=60)
    assert run.state == "finished"


def test_a_run_that_this_process_works_on_is_refused(root):
    def body(recorder):
        with pytest.raises(RunBusyError, match=f"this process.*{os.getpid()}"):
            small_job(root)()

    assert small_job(root, body=body)().state == "finished"


def test_of_two_threads_that_start_the_same_run_one_is_refused(root):
    both = threading.Barrier(2)
    outcomes = []

    def start():
        both.wait()
        try:
            outcomes.append(small_job(root, body=lambda recorder: time.sleep(0.5))())
        except RunBusyError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {type(outcome) for outcome in outcomes} == {Run, RunBusyError}


def test_a_pid_that_now_belongs_to_another_process_does_not_block(root):
    run = small_job(root)()
    status = json.loads((run.folder / "status.json").read_text())
    other = {"pid": os.getppid(), "started": "1", "host": run.record["host"], "boot": "other"}
    (run.folder / "status.json").write_text(
        json.dumps({**status, "state": "running", "pids": [other]})
    )
    assert run.state == "lost"
    assert small_job(root)().status()["attempt"] == 2


def test_a_run_of_another_machine_is_refused_while_it_writes_and_taken_over_after(root):
    run = small_job(root)()
    path = run.folder / "status.json"
    other = {"pid": 1, "started": "1", "host": "elsewhere", "boot": ""}
    path.write_text(json.dumps({"v": 1, "state": "running", "attempt": 1, "pids": [other]}))
    assert run.state == "running"
    with pytest.raises(RunBusyError, match=r"process 1 on elsewhere, seen . s ago"):
        small_job(root)()
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    assert small_job(root)().status()["attempt"] == 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(root):
    (root / "runs").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(RecordError, match=r"Permission denied.*another root"):
        small_job(root)()


def test_a_root_that_cannot_be_a_folder_is_named(root):
    file = root / "file"
    file.write_text("")
    with pytest.raises(UserError, match=r"file.*choose another root"):
        small_job(file)()


def test_a_record_that_cannot_be_written_ends_the_job_and_says_why(root, monkeypatch):
    def body(recorder):
        def full(file, data):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        try:
            recorder.report(1, {"train/loss": 1.0})
        finally:
            monkeypatch.undo()

    with pytest.raises(RecordError, match="No space left on device"):
        small_job(root, body=body)()
    (run,) = list_runs(root)
    assert run.state == "failed"


def test_secrets_of_the_environment_are_not_written_down(root, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret")
    monkeypatch.setenv("MY_FOLDER", "somewhere")
    job = small_job(root)
    job.config.training.note = "${oc.env:MY_API_KEY} in ${oc.env:MY_FOLDER}"
    run = job()
    assert run.config is not None
    written = OmegaConf.to_container(run.config, resolve=False)["training"]["note"]
    assert written == "${oc.env:MY_API_KEY} in somewhere"
    for path in run.folder.rglob("*"):
        assert path.is_dir() or "sk-very-secret" not in path.read_text()


def test_values_as_numpy_gives_them_are_numbers(root):
    import numpy as np

    def body(recorder):
        recorder.progress(np.int64(1), np.int64(2), unit="steps", loss=np.float32(1.5))
        recorder.report(np.int64(1), {"a": np.float32(1.5), "b": np.int32(2), "c": np.array(2.5)})

    run = small_job(root, body=body)()
    (record,) = run.metrics()
    assert (record["step"], record["a"], record["b"], record["c"]) == (1, 1.5, 2, 2.5)
    assert run.status()["progress"]["done"] == 1


def test_a_loss_that_is_not_a_number_survives(root):
    import math

    def body(recorder):
        recorder.report(1, {"train/loss": float("nan"), "val/loss": float("inf")})

    run = small_job(root, body=body)()
    assert math.isnan(run.metrics()[0]["train/loss"])
    assert "nan" in repr(run)
    for name in ("metrics.jsonl", "status.json"):
        assert "NaN" in (run.folder / name).read_text()


def test_names_that_every_line_has_cannot_be_used_again(root):
    def body(recorder):
        with pytest.raises(ValueError, match="step"):
            recorder.report(1, {"step": 2})
        with pytest.raises(ValueError, match="time"):
            recorder.event("evaluation", time=3)

    run = small_job(root, body=body)()
    assert run.metrics() == []


def test_a_recorder_is_of_no_use_after_its_run(root):
    kept = []
    small_job(root, body=kept.append)()
    with pytest.raises(RuntimeError, match="not being executed"):
        kept[0].report(1, {"train/loss": 1.0})


def test_reports_of_many_threads_are_all_there_and_whole(root):
    def body(recorder):
        def work(offset):
            for step in range(200):
                recorder.report(offset + step, {"train/loss": 1.0})
                recorder.progress(step, 200, unit="steps")
                recorder.event("note", step=step)

        threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run = small_job(root, body=body)()
    assert len(run.metrics()) == 800
    assert kinds(run).count("note") == 800


def test_the_heartbeat_goes_on_while_the_job_says_nothing(root):
    beats = []

    def body(recorder):
        for _ in range(2):
            recorder.progress(len(beats), 2, unit="steps")
            time.sleep(1.4)
            beats.append(json.loads((recorder.folder / "status.json").read_text())["heartbeat"])

    small_job(root, body=body)()
    assert 0 < beats[0] < beats[1]


def test_folders_that_are_no_runs_are_left_out_of_the_list(root):
    run = small_job(root)()
    (root / "runs" / "general" / "default" / "by-hand").mkdir()
    broken = root / "runs" / "general" / "default" / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert list_runs(root) == [run]
    assert list_runs(root / "nowhere") == []


def test_a_run_whose_folder_is_gone_still_prints(root):
    import shutil

    run = small_job(root)()
    shutil.rmtree(run.folder)
    fresh = Run(run.folder)
    assert "not the folder of a run" in repr(fresh)
    assert fresh._repr_html_() is None
