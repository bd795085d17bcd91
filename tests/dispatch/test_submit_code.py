"""Which code runs on the other side: the notebook's classes by value, the project, its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending, until
from theseus.combobulation import Combobulation
from theseus.dispatch.bundle import gather
from theseus.dispatch.dispatched import DispatchedRun
from theseus.dispatch.environment import GroupError, groups_for, plan
from theseus.dispatch.manifest import own_requirements
from theseus.dispatch.remote import RemoteError
from theseus.dispatch.worker.trial_job import Trial
from theseus.quick import QuickJob

pytestmark = pytest.mark.slow


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    return Sending(tmp_path, monkeypatch)


# A notebook: its classes live in `__main__`, with a helper of the project beside it.
NOTEBOOK = """
import os, sys
from dataclasses import dataclass
from pathlib import Path
from theseus.config import configure, field
from theseus.job import Job
from theseus.quick import QuickJob
import helper

@dataclass
class MineConfig:
    word: str = field("mine/word", default="hello")

def shouted(word):
    return word.upper() + helper.mark()

class Trap:
    def __reduce__(self):
        return open_trap, ()

def open_trap():
    Path(os.environ.get("TRAP", "/dev/null")).open("a").write(f"{os.getpid()}\\n")
    return 1

class Mine(Job):
    CONFIG = MineConfig
    trap = Trap()

    def run(self, recorder):
        print(shouted(configure(MineConfig).word), "in", os.getpid())
        recorder.report(1, {"train/loss": 1.0})

q = QuickJob("elsewhere").build(Mine, "by value")
q.config.mine.word = "it works"
q.save(sys.argv[1])
"""


def test_a_class_of_the_notebook_travels_and_is_unpickled_there_alone(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sending.project / "helper.py").write_text("def mark():\n    return '!'\n")
    recipe, trap = sending.tmp / "out.yaml", sending.tmp / "trap"
    subprocess.run([sys.executable, "-c", NOTEBOOK, str(recipe)], check=True)
    monkeypatch.setenv("TRAP", str(trap))
    sending.write_inventory(host=f"env: {{TRAP: {json.dumps(str(trap))}}}")
    run = sending.submit(Combobulation.load(recipe))
    assert run.wait(180) == "finished", str(run.logs())
    line = next(line for line in str(run.logs()).splitlines() if line.startswith("IT WORKS"))
    assert line.startswith("IT WORKS!")
    worker = line.split()[-1]
    assert trap.read_text().split() == [worker]
    assert worker != str(os.getpid())


def test_a_python_of_another_version_is_refused_before_anything_is_sent(
    sending: Sending,
) -> None:
    recipe = sending.tmp / "out.yaml"
    (sending.project / "helper.py").write_text("")
    subprocess.run([sys.executable, "-c", NOTEBOOK, str(recipe)], check=True)
    other = sending.tmp / "other python"
    other.write_text("#!/bin/sh\necho 3.9\n")
    other.chmod(0o755)
    text = sending.inventory.read_text().replace(json.dumps(sys.executable), json.dumps(str(other)))
    sending.inventory.write_text(text)
    with pytest.raises(RemoteError, match=r"is Python 3\.9\. Name a Python 3"):
        sending.submit(Combobulation.load(recipe))
    assert not (sending.work / "theseus" / "bundles").exists()


def test_a_python_that_does_not_start_is_told(sending: Sending) -> None:
    text = sending.inventory.read_text().replace(json.dumps(sys.executable), "/no/such/python")
    sending.inventory.write_text(text)
    with pytest.raises(RemoteError, match="/no/such/python"):
        sending.submit()


def test_setup_lines_come_before_the_worker(sending: Sending) -> None:
    sending.write_inventory(host='setup: "export COLOR=\\"from setup\\"; echo set up"')
    run = sending.submit()
    assert run.wait(180) == "finished"
    assert "color from setup" in str(run.logs())
    assert "set up\n" in str(run.logs())


# Environments


FAKE_UV = """#!/bin/sh
printf '%s|%s\\n' "$UV_PROJECT_ENVIRONMENT" "$*" >>"$(dirname "$0")/uv.log"
case $1 in
sync) place=$UV_PROJECT_ENVIRONMENT ;;
venv) for place; do :; done ;;
pip) [ "$2" = freeze ] && echo jax==0.9.9; exit 0 ;;
esac
[ -f "$(dirname "$0")/fail" ] && { echo "error: no such package 'nonsense'" >&2; exit 1; }
sleep 0.3
[ -f "$(dirname "$0")/slow" ] && sleep 2
echo "Installed 3 packages"
mkdir -p "$place/bin"
printf '#!/bin/sh\\nexec %s "$@"\\n' 'PYTHON' >"$place/bin/python"
chmod +x "$place/bin/python"
"""


@pytest.fixture
def uv(sending: Sending, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `uv` that writes down its calls, and makes environments of this Python."""
    folder = sending.tmp / "bin"
    folder.mkdir()
    program = folder / "uv"
    program.write_text(FAKE_UV.replace("PYTHON", sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    text = sending.inventory.read_text()
    lines = [line for line in text.splitlines() if "python:" not in line]
    lines.insert(lines.index("    cluster: here") + 1, "    uv_groups: [all, cuda13]")
    sending.inventory.write_text("\n".join(lines))
    return folder / "uv.log"


def calls(log: Path) -> list[str]:
    return [line.partition("|")[2] for line in log.read_text().splitlines()]


def pyproject(sending: Sending, text: str, lock: str | None = None) -> None:
    (sending.project / "pyproject.toml").write_text(text)
    if lock is not None:
        (sending.project / "uv.lock").write_text(lock)


def test_a_locked_project_is_synced_once_for_each_lock(sending: Sending, uv: Path) -> None:
    pyproject(
        sending, '[project]\nname = "mine"\nversion = "1"\n[dependency-groups]\nall = []\n', "v1"
    )
    first = sending.submit(sending.spec("one"))
    (sending.project / "more.py").write_text("")  # other code, the same lock
    second = sending.submit(sending.spec("two"))
    assert {first.wait(180), second.wait(180)} == {"finished"}
    syncs = [call for call in calls(uv) if call.startswith("sync")]
    assert syncs == [
        "sync --frozen --group all --no-dev --no-install-project --no-install-workspace"
    ]
    assert "Installed 3 packages" in sending.told
    (sending.project / "uv.lock").write_text("v2")
    sending.submit(sending.spec("three")).wait(180)
    assert len([call for call in calls(uv) if call.startswith("sync")]) == 2
    # No chips were asked for: what JAX needs for GPUs is left out, and nothing is locked anew.
    files = sorted((sending.work / "theseus/environments").glob("*/requirements.txt"))
    assert all("cuda" not in path.read_text() for path in files)
    assert all("jax==0.9.9" in path.with_name("constraints.txt").read_text() for path in files)


def test_a_failed_sync_says_why_and_is_tried_again(sending: Sending, uv: Path) -> None:
    fail = uv.with_name("fail")
    fail.touch()
    with pytest.raises(RemoteError, match="no such package 'nonsense'"):
        sending.submit()
    assert sending.registry.entries() == []
    fail.unlink()
    assert sending.submit().wait(180) == "finished"


def test_while_it_is_prepared_others_see_that_and_an_interrupted_one_is_told(
    sending: Sending, uv: Path
) -> None:
    uv.with_name("slow").touch()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(sending.submit()))
    thread.start()
    (entry,) = until(sending.registry.entries)
    run = DispatchedRun(entry)
    assert str(run.look()) == "preparing"
    thread.join()
    assert results[0].wait(180) == "finished"
    # As it is after a submission that was killed at this point.
    sending.registry.put(replace(entry, id="0123abcd", base="b", folder=f"{run.folder}x"))
    left = DispatchedRun.find("0123abcd").look()
    assert left.word == "lost"
    assert "interrupted before it was launched" in str(left)


def test_a_lone_notebook_brings_what_theseus_needs(sending: Sending, uv: Path) -> None:
    run = sending.submit()
    assert run.wait(180) == "finished"
    assert calls(uv)[0].startswith("venv ")
    place = next((sending.work / "theseus/environments").glob("*/requirements.txt"))
    needed = place.read_text()
    assert "flax" in needed
    assert "orbax-checkpoint" in needed
    assert "jax==" in place.with_name("constraints.txt").read_text()


def test_without_uv_the_message_says_how_to_get_it_or_do_without(
    sending: Sending, uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv.with_name("uv").unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(RemoteError, match=r"uv is not installed there .*'python: /path"):
        sending.submit()


@pytest.mark.parametrize(
    ("groups", "chips", "wanted"),
    [
        (("all", "cuda13"), True, ("all", "cuda13")),
        (("all", "cuda13"), False, ("all", "cpu")),
        (("all", "cuda12"), False, ("all", "cpu")),
        (("tpu",), False, ("cpu",)),
        (("cpu", "cuda12"), False, ("cpu",)),
        (("mine",), False, ("mine",)),
    ],
)
def test_a_request_without_chips_takes_cpu_in_place_of_gpus(
    groups: tuple[str, ...], chips: bool, wanted: tuple[str, ...]
) -> None:
    assert groups_for(groups, chips=chips) == wanted


def planned(sending: Sending, *groups: str, chips: bool = True) -> Any:
    return plan(gather(sending.project), groups, host="me", chips=chips, python=None)


def test_a_group_that_nobody_knows_is_refused_with_the_nearest(sending: Sending) -> None:
    with pytest.raises(GroupError, match=r"'cuda31' .*did you mean 'cuda13'"):
        planned(sending, "cuda31")


def test_groups_of_the_project_go_to_uv_sync_and_ours_are_added(sending: Sending) -> None:
    pyproject(
        sending,
        '[project]\nname="mine"\nversion="1"\n[project.optional-dependencies]\nviz=["x"]\n'
        '[dependency-groups]\nlab=["y"]\n',
    )
    made = planned(sending, "lab", "viz", "cuda13")
    assert made.sync[:4] == ("--group", "lab", "--extra", "viz")
    assert "--frozen" not in made.sync
    assert "jax[cuda13]" in made.requirements
    assert set(own_requirements()) <= set(made.requirements)


def test_a_checkout_of_theseus_runs_itself(sending: Sending, repository: Path) -> None:
    recipe = QuickJob(sending.tmp / "elsewhere").build(Trial, "from a checkout").spec()
    run = sending.submit(recipe, code=repository)
    assert run.wait(180) == "finished", str(run.logs())
    (bundle,) = (sending.work / "theseus/bundles").iterdir()
    assert (bundle / "project/theseus/dispatch/worker/work.py").is_file()
    assert not (bundle / "own").exists()


def test_a_project_that_depends_on_theseus_is_not_synced_with_a_theseus_that_is_not_there(
    sending: Sending,
) -> None:
    """What runs here is a checkout: it is sent, and the index is not asked for it."""
    pyproject(
        sending, '[project]\nname="mine"\nversion="1"\ndependencies=["theseus_jupyter>=0.1"]\n'
    )
    bundle = gather(sending.project)
    made = plan(bundle, ("all", "cpu"), host="me", chips=False, python=None)
    assert bundle.own
    assert made.sync is not None
    assert made.sync[-2:] == ("--no-install-package", "theseus-jupyter")
    assert "orbax-checkpoint>=0.12" in made.requirements  # of the extra, which it did not ask for


def test_uv_finds_a_theseus_that_no_index_has_beside_the_project(
    sending: Sending, uv: Path
) -> None:
    """Its metadata travel as a wheel without code; the source itself is beside it."""
    pyproject(sending, '[project]\nname="mine"\nversion="1"\ndependencies=["theseus-jupyter"]\n')
    uv.with_name("uv").write_text(
        FAKE_UV.replace("PYTHON", sys.executable).replace(
            "case $1 in",
            'echo "find $UV_FIND_LINKS $UV_NO_SOURCES_PACKAGE"\n'
            'echo "version $SETUPTOOLS_SCM_PRETEND_VERSION"\ncase $1 in',
            1,
        )
    )
    for command in (("add", "."), ("commit", "-qm", "x"), ("tag", "v1.2.3")):
        subprocess.run(["git", "-C", str(sending.project), *command], check=True)
    sending.submit().wait(180)
    assert "version 1.2.3" in sending.told
    (line,) = {one for one in sending.told if one.startswith("find ")}
    folder = line.removeprefix("find ").removesuffix(" theseus-jupyter")
    (wheel,) = Path(folder).glob("theseus_jupyter-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = [name.rpartition("/")[2] for name in archive.namelist()]
        assert names == ["METADATA", "WHEEL", "RECORD"]
        assert b"\nName: theseus-jupyter\n" in archive.read(archive.namelist()[0])


def test_this_repository_needs_nothing_but_its_own_groups(repository: Path) -> None:
    made = plan(gather(repository), ("all", "cuda13"), host="me", chips=False, python=None)
    assert made.sync is not None
    assert made.sync[:4] == ("--group", "all", "--group", "cpu")
    assert made.requirements == ()
    assert made.whole  # its version is read from its files
    assert not made.tied


@pytest.mark.parametrize(
    "more",
    [
        '[tool.uv.sources]\nother = { path = "libs/other" }\n',
        '[build-system]\nrequires = ["maturin"]\nbuild-backend = "maturin"\n',
    ],
)
def test_an_environment_with_code_of_the_tree_is_not_shared(sending: Sending, more: str) -> None:
    pyproject(sending, f'[project]\nname="mine"\nversion="1"\n{more}', "lock")
    first = planned(sending)
    (sending.project / "more.py").write_text("")
    second = planned(sending)
    assert first.tied
    assert first.key != second.key
    assert "--no-install-project" not in first.sync
