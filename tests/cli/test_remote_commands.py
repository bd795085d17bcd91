"""The commands for runs elsewhere: words in, runs out; what was wrong and what failed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.dispatch.sending import Sending, until
from theseus.cli.call import execute
from theseus.cli.remote import Meter
from theseus.combobulation import Combobulation
from theseus.dispatch.dispatched import DispatchedRun

Theseus = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.slow


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    made = Sending(tmp_path, monkeypatch)
    monkeypatch.setenv("THESEUS_CONFIG", str(made.inventory))
    made.spec("from the file").save(made.tmp / "out.yaml")
    return made


@pytest.fixture
def theseus(sending: Sending, capsysbinary: Any) -> Theseus:
    def call(*words: object) -> tuple[int, str, str]:
        status = execute([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        assert b"Traceback" not in err
        return status, out.decode(), err.decode()

    return call


def test_from_a_recipe_to_the_log_in_a_terminal(
    sending: Sending, theseus: Theseus, tmp_path: Path
) -> None:
    recipe = sending.tmp / "out.yaml"
    status, out, err = theseus("submit", "train-gpt", recipe, "count.steps=5", "count.pause=0.1")
    assert status == 0, err
    assert "queued on me" in out
    assert "me  fits now" in err
    run = DispatchedRun.find("train-gpt")
    assert f"theseus logs {run.id} -f" in out
    status, out, err = theseus("logs", "train-gpt", "-f")
    assert status == 0
    assert out == (sending.folder(run) / "log/0.log").read_text()
    assert "finished on me" in err
    status, out, _ = theseus("status", run.id[:5])
    assert status == 0
    assert "finished on me" in out
    assert "step 5/5 (100 %)" in out
    assert run.folder in out
    status, out, _ = theseus("runs")
    assert [out.split()[i] for i in (1, 2, 3)] == ["finished", run.id, "train-gpt"]
    status, out, _ = theseus("fetch", "latest", "--to", tmp_path / "here")
    assert (status, out) == (0, f"{tmp_path / 'here'}\n")
    assert (tmp_path / "here/results/sum.txt").read_text() == "5"
    status, out, err = theseus("submit", "train-gpt", recipe, "count.steps=5", "count.pause=0.1")
    assert status == 0
    assert "has finished on me" in err


def test_programs_read_json(sending: Sending, theseus: Theseus) -> None:
    status, out, err = theseus("submit", "a", sending.tmp / "out.yaml", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["name"], told["host"], told["attempt"], told["provider"]) == (
        "a",
        "me",
        1,
        "local",
    )
    run = DispatchedRun.find(told["id"])
    run.wait(180)
    assert json.loads(theseus("status", "a", "--json")[1])["state"] == "finished"
    assert json.loads(theseus("runs", "--json")[1])[0]["id"] == run.id
    hosts = json.loads(theseus("hosts", "--json")[1])
    assert [(one["name"], one["type"], one["fit"]) for one in hosts] == [("me", "local", "now")]
    cached = json.loads(theseus("hosts", "--cached", "--json")[1])
    assert cached == hosts


def test_a_run_that_fails_is_status_1_for_who_follows_it(
    sending: Sending, theseus: Theseus
) -> None:
    words = ("submit", "bad", sending.tmp / "out.yaml", "count.fail_at=2", "-f")
    status, out, err = theseus(*words)
    assert status == 1
    assert "RuntimeError: as asked" in out
    assert (
        err.splitlines()[-1]
        == f"theseus: 'bad' ({DispatchedRun.find('bad').id}) failed: RuntimeError: as asked"
    )


def test_cancel_says_what_became_of_it(sending: Sending, theseus: Theseus) -> None:
    theseus("submit", "long", sending.tmp / "out.yaml", "count.steps=500", "count.pause=0.2")
    run = DispatchedRun.find("long")
    until(lambda: run.state == "running")
    status, out, _ = theseus("cancel", "long")
    assert status == 0
    assert "cancelled on me" in out
    assert theseus("logs", "long", "--tail", "1")[1].count("\n") == 1


def test_the_logs_of_several_runs_come_with_their_names(sending: Sending, theseus: Theseus) -> None:
    for name in ("first", "second one"):
        theseus("submit", name, sending.tmp / "out.yaml", "count.pause=0.1")
    status, out, _ = theseus("logs", "first", "second one", "-f")
    assert status == 0
    lines = out.splitlines()
    assert sum(line.startswith("first      | ") for line in lines) > 5
    assert sum(line.startswith("second one | ") for line in lines) > 5
    assert all(line[10:13] == " | " for line in lines)


def test_the_list_is_brought_up_to_date_when_asked(sending: Sending, theseus: Theseus) -> None:
    theseus("submit", "a", sending.tmp / "out.yaml")
    run = DispatchedRun.find("a")
    until(
        lambda: json.loads((sending.folder(run) / "status.json").read_text())["state"] == "finished"
    )
    assert "queued" in theseus("runs")[1]
    assert "finished" in theseus("runs", "--refresh")[1]
    assert "finished" in theseus("runs")[1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_shows_how_much_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, shown in ((Terminal, "\r\x1b[Ksending 0 B of 2.0 kB\r\x1b[Ksending 2.0 kB of 2.0 kB\n"),
                        (io.StringIO, "")):  # fmt: skip
        monkeypatch.setattr(sys, "stderr", stream := kind())
        meter = Meter("sending")
        meter(0, 2000)
        meter(2000, 2000)
        meter.close()
        assert stream.getvalue() == shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["submit", "a"], "Missing argument 'FILE'"),
        (["submit", "a", "nothing.yaml"], "there is no file"),
        (["submit", "a", "OUT", "count.stps=1"], "did you mean 'count.steps'"),
        (["submit", "a", "OUT", "--host", "mee"], "no host 'mee', did you mean 'me'"),
        (["submit", "a", "OUT", "--limit", "lots"], "lots"),
        (["submit", "a", "OUT", "-d", "nowhere.yaml"], "there is no inventory"),
        (["status", "nothing"], "no run was submitted from this machine yet"),
        (["logs"], "no run was submitted from this machine yet"),
        (["hosts", "test", "mee"], "did you mean 'me'"),
        (["hosts", "ad"], "No such command 'ad'"),
    ],
)
def test_a_wrong_call_is_status_2(
    sending: Sending, theseus: Theseus, words: list[str], told: str
) -> None:
    given = [str(sending.tmp / "out.yaml") if word == "OUT" else word for word in words]
    status, out, err = theseus(*given)
    assert (status, out) == (2, "")
    assert told in err
    assert not sending.root.exists()


def test_no_host_that_fits_is_work_that_failed_with_every_reason(
    sending: Sending, theseus: Theseus
) -> None:
    words = ("submit", "a", sending.tmp / "out.yaml", "--chip", "h100", "--gpus", "4")
    status, out, err = theseus(*words)
    assert (status, out) == (1, "")
    assert "no host can take this run\n  me  no  needs h100, has " in err


def test_a_dry_run_shows_what_would_be_sent_and_asks_nobody(
    sending: Sending, theseus: Theseus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    sending.write_inventory(host='env: {HF_TOKEN: "${oc.env:HF_TOKEN}", COLOR: blue}')
    status, out, _ = theseus("submit", "a", sending.tmp / "out.yaml", "--dry-run")
    assert status == 0
    assert f"  {sending.module}.py\n" in out
    assert "me (local)" in out
    assert "COLOR=blue" in out
    assert "hf_0123456789abcdef" not in out
    told = json.loads(theseus("submit", "a", sending.tmp / "out.yaml", "--dry-run", "--json")[1])
    assert f"project/{sending.module}.py" in told["bundle"]["files"]
    assert not sending.root.exists()
    assert not sending.work.exists()
    run = sending.submit(sending.spec("a"))
    assert run.id == told["id"]
    run.wait(180)


def test_a_secret_that_a_job_prints_is_covered_wherever_it_is_read(
    sending: Sending, theseus: Theseus, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "hf_0123456789abcdef"
    monkeypatch.setenv("HF_TOKEN", token)
    sending.write_inventory(host='env: {HF_TOKEN: "${oc.env:HF_TOKEN}"}')
    run = sending.submit(sending.spec("a", fail_at=1))
    assert run.wait(180) == "failed"
    with (sending.folder(run) / "log/0.log").open("a") as log:
        log.write(f"logging in with {token}\ntoken={token}")
    covered = f"logging in with {'*' * len(token)}\ntoken={'*' * len(token)}"
    assert str(run.logs()).endswith(covered)
    assert str(run.logs(tail=2)).endswith(covered)
    assert theseus("logs", "a", "-n", "2")[1] == covered
    assert theseus("logs", "a", "a", "-n", "1")[1].count("*" * len(token)) == 2
    # In the text of an error, too.
    path = sending.folder(run) / "status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reason": f"401 for {token}"}))
    again = DispatchedRun.find("a")
    sending.registry.change(run.id, state="running", reason=None)
    assert str(again.look()) == "failed: 401 for ••••"
    record = sending.registry.path(run.id).read_text()
    assert token not in record
    assert "401 for" in record


QUEUES = """
gres_mapping: {h100sxm: h100}
hosts:
  me:
    type: slurm
    ssh: nobody-asks
    cluster: here
    partitions: [big, small]
    account: lab
    time: "2:00:00"
    extra: ["--reservation=hf_0123456789abcdef"]
    chips: {h100: 8}
    uv_groups: [cuda13]
    env: {HF_TOKEN: "${oc.env:HF_TOKEN}"}
  pool:
    type: volcano
    cluster: here
    image: python
    pvc_name: shared
    num_nodes: 2
    gpus_per_node: 8
    chips: {h100: 16}
    env: {HF_TOKEN: "${oc.env:HF_TOKEN}"}
"""


def test_a_dry_run_shows_what_a_queue_would_be_given_without_secrets(
    sending: Sending, theseus: Theseus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CLI, `%theseus` (the same code) and the Python API; the whole script, and the whole job."""
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    text = sending.inventory.read_text()
    sending.inventory.write_text(
        text[: text.index("hosts:")].replace(str(sending.root), "~/its root") + QUEUES
    )
    words = ("submit", "a", sending.tmp / "out.yaml", "--chip", "h100", "--gpus", "4", "--dry-run")
    status, out, err = theseus(*words)
    assert status == 0, err
    assert "would be sent: " in out
    for line in ("--partition=big", "--gres=gpu:h100sxm:4", "--account=lab", "--time=2:00:00"):
        assert f"  #SBATCH {line}\n" in out
    assert "  #SBATCH --reservation=••••\n" in out
    assert "start.sh" in out
    assert "srun --nodes=" in out
    assert "  kind: Job\n" in out
    assert "nvidia.com/gpu: " in out
    assert "hf_0123456789abcdef" not in out
    told = json.loads(theseus(*words, "--json")[1])
    script = told["hosts"][0]["queued"]
    assert script.startswith("#!/bin/sh\n#SBATCH --job-name=a-")
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    manifest = OmegaConf.create(told["hosts"][1]["queued"])
    assert manifest.spec.minAvailable == 1
    assert "hf_0123456789abcdef" not in json.dumps(told)
    spec = Combobulation.load(sending.tmp / "out.yaml").chip("h100").gpu(4)
    api = spec.submit("a", inventory=sending.inventory, dry_run=True)
    assert script.splitlines()[1] in str(api)
    assert repr(api) == str(api)
    assert sending.registry.entries() == []


def test_the_whole_way_to_a_host_is_tried(sending: Sending, theseus: Theseus) -> None:
    status, out, err = theseus("hosts", "test", "me")
    assert status == 0, out + err
    assert out.splitlines()[-1] == "me is ready: a run can go there"
    assert sum(line.startswith("✓") for line in out.splitlines()) == 10
    assert list(sending.root.glob("runs/*/*/*/run.json")) == []
    assert theseus("runs", "--json")[1].strip() == "[]"


def test_the_step_that_fails_says_how_to_mend_it(sending: Sending, theseus: Theseus) -> None:
    text = sending.inventory.read_text().replace(json.dumps(sys.executable), "/no/such/python")
    sending.inventory.write_text(text)
    status, out, err = theseus("hosts", "test", "me")
    assert status == 1
    assert "✗" in out
    assert "→" in out
    assert "me is not ready" in err


def test_lists_begin_at_once_and_import_little(sending: Sending) -> None:
    """`runs` and `hosts --cached` need no connection, and so none of what makes one."""
    heavy = "{'jax', 'paramiko', 'omegaconf', 'numpy'}"
    for words in (["runs"], ["hosts", "--cached"], ["--help"]):
        code = (
            f"import sys; from theseus.cli.call import execute; assert execute({words}) == 0; "
            f"print(sorted({heavy} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]", words
