"""The command line: the same words as the magics, messages without tracebacks, exit statuses."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from theseus.cli.call import execute
from theseus.combobulation import Combobulation
from theseus.config import configure, field
from theseus.job import Job
from theseus.registry import job


@dataclass
class AddConfig:
    first: int = field("add/first", default=1, help="the first number", ge=0)
    second: int = field("add/second", help="the second number")
    fail: str = field("add/fail", default="", choices=["", "wrong", "broken"])


@job("test/cli/add")
class Add(Job):
    """Add two numbers."""

    CONFIG = AddConfig

    def run(self, recorder):
        values = configure(AddConfig)
        if values.fail == "broken":
            raise ZeroDivisionError
        if values.fail == "wrong":
            from theseus.errors import UserError

            raise UserError("the numbers do not add up")
        recorder.report(1, {"sum": values.first + values.second})


@pytest.fixture
def theseus(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THESEUS_PROGRESS", "none")

    def call(*words):
        status = execute([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err or "ZeroDivisionError" in err
        return status, out, err

    return call


def test_no_words_show_the_help(theseus):
    for words in ([], ["--help"], ["-h"]):
        status, out, _ = theseus(*words)
        assert status == 0
        assert "Usage: theseus" in out
        assert "configure" in out


@pytest.mark.parametrize("command", ["jobs", "configure", "run"])
def test_every_command_has_help(theseus, command):
    status, out, _ = theseus(command, "--help")
    assert status == 0
    assert f"Usage: theseus {command}" in out


def test_version(theseus):
    assert theseus("--version")[:2] == (0, "theseus 0.1.0\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["jbos"], "Did you mean 'jobs'?"),
        (["jobs", "--jsn"], "--json"),
        (["configure"], "Missing argument 'JOB'"),
        (["run", "a"], "Missing argument 'FILE'"),
        (["jobs", "test/cli/ad"], "did you mean 'test/cli/add'"),
        (["configure", "test/cli/ad", "x.yaml"], "did you mean 'test/cli/add'"),
        (["configure", "test/cli/add", "x.yaml", "add.frist=1"], "did you mean 'add.first'"),
        (["configure", "test/cli/add", "x.yaml", "add.first=many"], "add.first"),
        (["configure", "test/cli/add", "x.yaml", "add.first=-1"], "add.first"),
        (["configure", "test/cli/add", "x.yaml", "add.first"], "expected key=value"),
        (["configure", "test/cli/add", "x.yaml", "--chip", "h10"], "did you mean 'h100'"),
        (["configure", "test/cli/add", "x.yaml", "--gpus", "4", "--tp", "3"], "does not divide"),
        (["configure", "test/cli/add", "no/folder/x.yaml"], "cannot write"),
        (["run", "n", "nothing.yaml", "root"], "there is no file"),
        (["--import", "nothing.py", "jobs"], "there is no file"),
    ],
)
def test_a_wrong_call_is_status_2_with_one_message(theseus, words, told, tmp_path):
    status, out, err = theseus(*words)
    assert status == 2
    assert told in err
    assert err.startswith("theseus: ")
    assert out == ""
    assert list(tmp_path.iterdir()) == []


# jobs


def test_jobs_lists_keys_and_what_they_do(theseus):
    status, out, _ = theseus("jobs")
    assert status == 0
    lines = out.splitlines()
    assert "gpt/train/pretrain" in out
    assert any(line.split() == ["test/cli/add", "Add", "two", "numbers."] for line in lines)


def test_jobs_of_a_group(theseus):
    _, out, _ = theseus("jobs", "test/cli")
    assert out.split()[0] == "test/cli/add"
    assert len(out.splitlines()) == 1


def test_jobs_verbose_shows_each_key(theseus):
    _, out, _ = theseus("jobs", "-v", "test/cli/add")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "int ≥ 0" in rows["add.first"]
    assert "1" in rows["add.first"]
    assert "the first number" in rows["add.first"]
    assert "required" in rows["add.second"]
    assert "wrong, broken" in rows["add.fail"]


def test_jobs_as_json(theseus):
    _, out, _ = theseus("jobs", "--json")
    assert {"key": "test/cli/add", "help": "Add two numbers."} in json.loads(out)
    _, out, _ = theseus("jobs", "-v", "--json", "test/cli/add")
    keys = {one["key"]: one for one in json.loads(out)[0]["keys"]}
    assert keys["add.first"]["default"] == 1
    assert keys["add.first"]["ge"] == 0
    assert keys["add.second"]["required"] is True
    assert keys["add.fail"]["choices"] == ["", "wrong", "broken"]


# configure


def test_configure_writes_what_the_seeds_way_writes(theseus, tmp_path):
    status, out, _ = theseus(
        "configure", "test/cli/add", "out.yaml", "add.first=32_768", "--name", "my run"
    )
    assert status == 0
    assert "wrote out.yaml" in out
    c = Combobulation.deserialize(OmegaConf.load(tmp_path / "out.yaml"))
    assert c.identity.name == "my run"
    assert c.config.add.first == 32768
    assert OmegaConf.is_missing(c.config.add, "second")


def test_configure_takes_resources(theseus, tmp_path):
    words = "--chip h100 --chip h200 --gpus 4 --tp 2 --fsdp --zero --memory 8G --nodes 2 --cpus 3"
    theseus("configure", "test/cli/add", "o.yaml", *words.split(), "--cluster", "a", "--avoid", "b")
    asked = Combobulation.load(tmp_path / "o.yaml").resources
    assert (asked.chips, asked.gpus, asked.nodes, asked.cpus) == (("h100", "h200"), 4, 2, 3)
    assert (asked.memory, asked.clusters, asked.avoid) == (8 * 2**30, ("a",), ("b",))
    assert str(asked.sharding) == "tp 2, fsdp, zero"


def test_configure_does_not_replace_another_recipe_unasked(theseus, tmp_path):
    theseus("configure", "test/cli/add", "o.yaml", "add.first=1")
    before = (tmp_path / "o.yaml").read_text()
    status, out, _ = theseus("configure", "test/cli/add", "o.yaml", "add.first=1")
    assert (status, "already" in out) == (0, True)
    status, _, err = theseus("configure", "test/cli/add", "o.yaml", "add.first=2")
    assert (status, "--force" in err) == (2, True)
    assert (tmp_path / "o.yaml").read_text() == before
    assert theseus("configure", "test/cli/add", "o.yaml", "add.first=2", "--force")[0] == 0
    assert Combobulation.load(tmp_path / "o.yaml").config.add.first == 2


def test_configure_does_not_replace_a_file_that_is_no_recipe(theseus, tmp_path):
    (tmp_path / "notes.yaml").write_text("mine: true\n")
    status, _, err = theseus("configure", "test/cli/add", "notes.yaml")
    assert (status, "--force" in err) == (2, True)
    assert (tmp_path / "notes.yaml").read_text() == "mine: true\n"


# run


@pytest.fixture
def recipe(theseus):
    theseus("configure", "test/cli/add", "out.yaml", "add.second=2", "--project", "p")
    return "out.yaml"


def test_run_runs_it_here(theseus, recipe, tmp_path):
    status, out, _ = theseus("run", "my name", recipe, "root", "add.first=40", "--json")
    assert status == 0
    told = json.loads(out)
    assert told["state"] == "finished"
    record = json.loads((Path(told["folder"]) / "run.json").read_text())
    assert (record["name"], record["project"], record["group"]) == ("my name", "p", "default")
    assert Path(told["folder"]).is_relative_to(tmp_path / "root")
    again = json.loads(theseus("run", "my name", recipe, "root", "add.first=40", "--json")[1])
    assert again["id"] == told["id"]
    fresh = theseus("run", "my name", recipe, "root", "add.first=40", "--json", "--fresh")
    assert json.loads(fresh[1])["id"] != told["id"]


def test_a_refused_configuration_is_a_wrong_call(theseus, tmp_path):
    theseus("configure", "test/cli/add", "out.yaml")
    status, _, err = theseus("run", "n", "out.yaml", "root")
    assert status == 2
    assert "add.second" in err
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("fail", "told"), [("wrong", "do not add up"), ("broken", "ZeroDivisionError")]
)
def test_work_that_fails_is_status_1(theseus, recipe, fail, told):
    status, _, err = theseus("run", "n", recipe, "root", f"add.fail={fail}")
    assert status == 1
    assert told in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "out.yaml, line"),
        ("- 1\n- 2\n", "expected keys and values"),
        ("something: {}\nconfig: {}\n", "no format number"),
        ("", "no format number"),
        ("a: ${", "out.yaml"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(theseus, tmp_path, text, told):
    (tmp_path / "out.yaml").write_text(text)
    status, _, err = theseus("run", "n", "out.yaml", "root")
    assert status == 2
    assert "out.yaml" in err
    assert told in err


def test_a_misspelt_file_names_the_nearest(theseus, recipe):
    assert "did you mean 'out.yaml'" in theseus("run", "n", "ouut.yaml", "root")[2]


# --import

SCRIPT = '''
from dataclasses import dataclass
from theseus.config import configure, field
from theseus.job import Job
from theseus.quick import quick
from theseus.registry import job
from beside import OFFSET

@dataclass
class Config:
    start: int = field("count/start", default=1)

@job("test/script/count")
class Count(Job):
    """Count from a start."""
    CONFIG = Config
    def run(self, recorder):
        print("counted", configure(Config).start + OFFSET)

if __name__ == "__main__":
    raise SystemExit("the main part ran")
'''


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "beside.py").write_text("OFFSET = 10\n")
    (folder / "my_job_script.py").write_text(SCRIPT)
    return folder / "my_job_script.py"


def shell(*words, cwd, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "theseus", *map(str, words)],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "THESEUS_PROGRESS": "none",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done


def test_a_script_brings_its_jobs(script, tmp_path):
    assert "test/script/count" in shell("--import", script, "jobs", cwd=tmp_path).stdout
    shell(
        "--import", script, "configure", "test/script/count", "o.yaml", "count.start=5",
        cwd=tmp_path,
    )  # fmt: skip
    assert "counted 15" in shell("--import", script, "run", "a", "o.yaml", "r", cwd=tmp_path).stdout
    script.write_text(SCRIPT.replace('"counted"', '"counted anew"'))
    anew = shell("--import", script, "run", "a", "o.yaml", "r", cwd=tmp_path).stdout
    assert "counted anew 15" in anew


def test_the_recipe_of_a_script_runs_without_it(script, tmp_path):
    script.write_text(SCRIPT.replace("from beside import OFFSET", "OFFSET = 20"))
    shell("--import", script, "configure", "test/script/count", "o.yaml", cwd=tmp_path)
    script.unlink()
    assert "counted 21" in shell("run", "a", "o.yaml", "r", cwd=tmp_path).stdout


def test_a_script_with_the_name_of_a_library_module_does_not_hide_it(tmp_path):
    (tmp_path / "json.py").write_text("import json\nassert json.dumps\nraise ValueError('mine')\n")
    done = shell("--import", tmp_path / "json.py", "jobs", "--json", cwd="/", status=2)
    assert "ValueError: mine" in done.stderr


def test_a_script_that_fails_shows_its_own_lines(script, tmp_path):
    script.write_text("x = 1\ny = x / 0\n")
    done = shell("--import", script, "jobs", cwd=tmp_path, status=2)
    assert "y = x / 0" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "import_script" not in done.stderr


def test_a_script_is_run_again_in_the_same_process(theseus, script, capsys):
    script.write_text("print('once more')\n")
    for _ in range(2):
        status, out, _ = theseus("--import", script, "jobs")
        assert status == 0
        assert "once more" in out


def test_output_that_nobody_reads_is_no_fault(tmp_path):
    done = subprocess.run(
        f"{sys.executable} -m theseus jobs | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.stderr == ""
