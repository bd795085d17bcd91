"""What is imported when: nothing heavy before a model is touched."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import theseus

HEAVY = {
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax",
    "datasets",
    "matplotlib",
    "tokenizers",
    "pandas",
}
# What the magics and the list of jobs can do without, too.
MEDIUM = HEAVY | {"omegaconf", "cloudpickle", "paramiko", "numpy"}

SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "theseus")
"""
COMMAND = "from theseus.cli.call import execute; assert execute({words!r}) == 0"


def imported(code: str) -> set[str]:
    told = "import json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "without"),
    [
        pytest.param("import theseus", MEDIUM | {"typer", "IPython"}, id="import"),
        pytest.param(SHELL, MEDIUM | {"typer", "rich"}, id="load_ext"),
        pytest.param(COMMAND.format(words=["--help"]), MEDIUM, id="help"),
        pytest.param(COMMAND.format(words=["jobs"]), MEDIUM, id="jobs"),
        pytest.param(COMMAND.format(words=["jobs", "--json"]), MEDIUM, id="jobs-json"),
        pytest.param(SHELL + 'shell.run_line_magic("theseus", "jobs")', MEDIUM, id="magic-jobs"),
        pytest.param(
            "from theseus.quick import quick\nfrom theseus.combobulation import Combobulation",
            HEAVY,
            id="quick",
        ),
        pytest.param(
            "import theseus.lab\n"
            "assert theseus.lab._jupyter_server_extension_points()\n"
            "import theseus.lab.routes",
            MEDIUM | {"typer", "IPython", "rich"},
            id="lab",
        ),
        pytest.param(
            "import theseus.hardware.chips, theseus.hardware.resources", MEDIUM, id="chips"
        ),
    ],
)
def test_nothing_heavy_is_imported(code, without):
    found = imported(code)
    assert "theseus" in found
    assert found & without == set()


def test_the_package_offers_a_few_names_lazily():
    from theseus.combobulation import Combobulation
    from theseus.quick import QuickJob, init

    assert theseus.init is init
    assert theseus.QuickJob is QuickJob
    assert theseus.Combobulation is Combobulation
    assert {"init", "QuickJob", "Combobulation", "__version__"} <= set(dir(theseus))
    for name in theseus.__all__:
        assert getattr(theseus, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'innit'"):
        theseus.innit  # noqa: B018


def test_the_package_is_typed():
    assert (Path(theseus.__file__).parent / "py.typed").exists()
