"""A run that was submitted has its folder before it begins; the worker's output is its log."""

import json

import pytest

from tests.runs.helpers import small_job, start_python
from theseus.runs import open_run
from theseus.runs.claim import RunBusyError

WORKER = """
import os, sys
from functools import partial
from pathlib import Path
from tests.runs.helpers import small_job
from theseus.runs import open_run

def body(recorder):
    print("printed")
    sys.stderr.write("complained\\n")
    recorder.report(1, {"train/loss": 1.0})

job = small_job(Path(sys.argv[1]), body=body)
folder = Path(sys.argv[2])
log = open(folder / "log/0.log", "ab", buffering=0)
os.dup2(log.fileno(), 1); os.dup2(log.fileno(), 2)
job._open_run = partial(open_run, watchers=(), folder=folder)
job()
"""


@pytest.fixture
def folder(root):
    """The folder of a run as `submit` leaves it."""
    made = root / "runs/p/g/small-0123abcd"
    for part in ("log", "checkpoints", "results"):
        (made / part).mkdir(parents=True)
    facts = {"v": 1, "id": "0123abcd", "name": "small", "project": "p", "group": "g", "job": "x"}
    facts |= {"created": 1.0, "host": "box", "base": "b", "fresh": 0}
    (made / "run.json").write_text(json.dumps(facts))
    (made / "config.yaml").write_text("training: {steps: 4}\n")
    (made / "status.json").write_text(json.dumps({"v": 1, "state": "queued", "attempt": 0}))
    return made


def opened_in(folder, root, **options):
    job = small_job(root)

    def opened(job, *, fresh=False):
        return open_run(job, fresh=fresh, watchers=(), folder=folder, **options)

    job._open_run = opened
    return job()


def test_the_job_works_in_the_folder_that_was_made_for_it(folder, root):
    run = opened_in(folder, root)
    assert run.folder == folder
    assert run.state == "finished"
    assert run.status()["attempt"] == 1
    assert [path.parent.name for path in root.glob("runs/*/*/*/run.json")] == [folder.name]


def test_what_a_worker_prints_is_in_its_log_once(folder, root):
    with start_python(WORKER, root, folder) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    log = (folder / "log/0.log").read_text()
    assert log.count("printed\n") == 1
    assert log.count("complained\n") == 1
    assert log.count("step 1  train/loss 1") == 1


def test_a_requeued_run_takes_over_from_an_attempt_that_never_said_it_ended(folder, root):
    status = {"v": 1, "state": "running", "attempt": 1, "pids": [{"pid": 1, "host": "gone"}]}
    (folder / "status.json").write_text(json.dumps(status))
    with pytest.raises(RunBusyError):
        opened_in(folder, root)
    assert opened_in(folder, root, requeued=True).status()["attempt"] == 2


def test_the_gpus_that_a_run_was_given_are_in_its_status(folder, root, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    seen = []
    job = small_job(root, body=lambda recorder: seen.append(recorder.run.status()["gpus"]))
    job()
    assert seen == [["GPU-a", "GPU-b"]]
