"""Environments by the real uv, from the index: minutes, so they are made by hand.

THESEUS_BY_HAND=1 pytest tests/dispatch/test_real_uv.py, with `uv` in PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dispatch.sending import Sending
from tests.dispatch.test_submit_code import NOTEBOOK
from theseus.combobulation import Combobulation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "THESEUS_BY_HAND" not in os.environ or shutil.which("uv") is None,
        reason="downloads JAX; THESEUS_BY_HAND=1 with uv in PATH",
    ),
]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    """A user whose host prepares everything by itself; nothing of this environment leaks in."""
    made = Sending(tmp_path, monkeypatch)
    lines = [line for line in made.inventory.read_text().splitlines() if "python:" not in line]
    lines.insert(lines.index("    cluster: here") + 1, "    uv_groups: [cpu]")
    made.inventory.write_text("\n".join(lines))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("UV_CACHE_DIR", os.environ.get("UV_CACHE_DIR", "/var/tmp/theseus-uv-cache"))
    return made


def environment_of(sending: Sending) -> Path:
    (place,) = (sending.work / "theseus/environments").glob("*/venv")
    return place


def shown(sending: Sending, script: str) -> str:
    python = environment_of(sending) / "bin/python"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_class_of_a_lone_notebook_runs_in_an_environment_made_from_nothing(
    sending: Sending,
) -> None:
    (sending.project / "helper.py").write_text("def mark():\n    return '!'\n")
    recipe = sending.tmp / "out.yaml"
    subprocess.run([sys.executable, "-c", NOTEBOOK, str(recipe)], check=True)
    run = sending.submit(Combobulation.load(recipe))
    assert run.wait(120) == "finished", str(run.logs())
    assert "IT WORKS!" in str(run.logs())
    assert shown(sending, "import sys; print('%d.%d' % sys.version_info[:2])") == PYTHON
    assert shown(sending, "import jax; print(jax.__version__)")
    # The same again takes what is there.
    sending.told.clear()
    again = sending.submit(Combobulation.load(recipe), fresh=True)
    assert again.wait(120) == "finished"
    assert not any("preparing" in line for line in sending.told)


@pytest.mark.parametrize("kind", ["named", "source", "locked"])
def test_a_project_that_depends_on_theseus_brings_what_it_depends_on(
    sending: Sending, repository: Path, kind: str
) -> None:
    """By name alone, by the path of a checkout that the host does not have, and with a lock."""
    checkout = json.dumps(str(repository))
    (sending.project / "pyproject.toml").write_text(
        f'[project]\nname = "mine"\nversion = "1"\nrequires-python = ">={PYTHON}"\n'
        'dependencies = ["theseus-jupyter", "humanize==4.9.0"]\n'
        + (f"[tool.uv.sources]\ntheseus-jupyter = {{path={checkout}, editable=true}}\n")
        * (kind != "named")
    )
    if kind == "locked":
        subprocess.run(["uv", "lock", "--quiet"], cwd=sending.project, check=True)
    module = sending.project / f"{sending.module}.py"
    module.write_text(module.read_text().replace("import os\n", "import os\nimport humanize\n", 1))
    spec = sending.spec()
    run = sending.submit(spec)
    assert run.wait(120) == "finished", str(run.logs())
    assert shown(sending, "import humanize; print(humanize.__version__)") == "4.9.0"
    assert json.loads((sending.folder(run) / "run.json").read_text())["job"]
