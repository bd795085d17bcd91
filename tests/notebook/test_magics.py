"""The magics, in a real IPython shell and in a real kernel."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.notebook.ipython import ROOT, run_cells

LOAD = "%load_ext theseus"
JOB = '''
from dataclasses import dataclass
from theseus.config import configure, field
from theseus.job import Job
from theseus.registry import job

@dataclass
class Model:
    n_embd: int = field("architecture/n_embd", default=768, help="embedding width", ge=1)
    rope: bool = field("architecture/rope", default=True)

@dataclass
class Training:
    tokens: int = field("training/tokens", default=1_000)
    label: str = field("training/label", default="")
    names: list[str] = field("training/names", default=[])
    lr: float = field("optimization/lr", default=3e-4)

@job("test/magic")
class Magic(Job):
    """Add the width and the tokens."""

    @classmethod
    def configs(cls):
        return Model, Training

    def run(self, recorder):
        recorder.report(1, {"sum": configure(Model).n_embd + configure(Training).tokens})
'''


@pytest.fixture
def cells(tmp_path):
    def run(*texts):
        did = run_cells([LOAD, JOB, *texts], tmp_path)
        assert [one.error for one in did[:2]] == [None, None], did[:2]
        return did[2:]

    return run


# The line magic


def test_commands_answer_as_in_a_terminal(cells):
    listed, verbose, helped, bare, command_help = cells(
        "%theseus jobs test",
        "%theseus jobs -v test/magic",
        "%theseus --help",
        "%theseus",
        "%theseus configure -h",
    )
    assert listed.out == "test/magic  Add the width and the tokens.\n"
    assert "architecture.n_embd" in verbose.out
    assert "embedding width" in verbose.out
    assert "Usage: %theseus" in helped.out
    assert bare.out == helped.out
    assert "Usage: %theseus configure" in command_help.out


def test_a_mistake_is_one_message_without_traceback(cells):
    for did, told in zip(
        cells(
            "%theseus jobz",
            "%theseus jobs test/magik",
            "%theseus jobs --jsn",
            "%theseus jobs 'a",
            "%theseus test/magic train",
            "%theseus run a none.yaml root",
        ),
        [
            "Did you mean 'jobs'?",
            "did you mean 'test/magic'",
            "--json",
            "No closing quotation",
            "write %%theseus (two signs)",
            "there is no file",
        ],
        strict=True,
    ):
        assert told in did.out
        assert "Traceback" not in did.out
        assert "SystemExit" not in did.out
        assert "run_line_magic" not in did.out
        assert did.error is not None


def test_configure_and_run_work_from_a_cell(cells, tmp_path):
    wrote, ran = cells(
        "%theseus configure test/magic out.yaml training.tokens=5 --name 'my run'",
        "%theseus run 'my run' out.yaml root --json",
    )
    assert "wrote out.yaml" in wrote.out
    assert '"state": "finished"' in ran.out
    assert list((tmp_path / "root" / "runs").iterdir())


def test_question_mark_shows_the_help(cells):
    (did,) = cells("print(get_ipython().find_line_magic('theseus').__doc__)")
    assert "%%theseus JOB NAME" in did.out


def test_the_help_names_every_command():
    from typer.main import get_command

    from theseus.cli.app import app
    from theseus.notebook.magics import TheseusMagics

    told = TheseusMagics.theseus.__doc__
    commands = {name for name, one in get_command(app).commands.items() if not one.hidden}
    assert {name for name in commands if f"%theseus {name} " not in told} == set()


def test_the_doctor_shows_a_table_and_stops_no_notebook(cells, monkeypatch, tmp_path):
    monkeypatch.setenv("THESEUS_CONFIG", str(tmp_path / "hosts.yaml"))
    (tmp_path / "hosts.yaml").write_text("hosts: {box: {shs: box}}\n")
    (did,) = cells("%theseus doctor")
    assert did.error is None
    (shown,) = did.shown
    assert "<table" in shown["text/html"]
    assert "✗  inventory" in shown["text/plain"]


# The cell magic


def test_a_cell_builds_binds_and_shows(cells):
    built, bound = cells(
        "%%theseus test/magic train-gpt --root r\n"
        "architecture: {n_embd: 128}\n"
        "training.tokens: 32_768\n",
        "c = q.config\n"
        "print(q.name, q.root.name, c.architecture.n_embd, c.training.tokens, c.architecture.rope)",
    )
    assert built.error is None
    assert bound.out == "train-gpt r 128 32768 True\n"
    (shown,) = built.shown
    assert "architecture.n_embd" in shown["text/plain"]
    assert "32_768" in shown["text/plain"]
    assert "<table" in shown["text/html"]


def test_a_cell_without_a_body_takes_the_defaults(cells):
    for did in cells("%%theseus test/magic a --root r", "%%theseus test/magic a --root r\n\n# no"):
        assert did.error is None
        assert "6 keys, 0 changed" in did.text


def test_help_of_the_cell(cells):
    for did in cells("%%theseus --help", "%%theseus -h\nx: 1", "%%theseus\n\n"):
        assert did.error is None
        assert "Usage: %%theseus" in did.out
        assert "--root" in did.out


def test_values_arrive_as_written(cells):
    built, seen = cells(
        "model, oc = 1, 2\n",
        "%%theseus test/magic 'two words $model {oc}' --root r\n"
        "training:\n"
        "  label: ${architecture.n_embd}\n"
        "  names: [on, 1, 2020-01-01, 'x y']\n"
        "optimization/lr: 3e-4\n"
        "architecture.rope: off\n",
        "print(q.name)\n"
        "print(q.config.training.names, q.config.optimization.lr, q.config.architecture.rope)\n"
        "q.config.architecture.n_embd = 5\n"
        "print(q.spec().config.training.label, q.spec().values['training']['label'])",
    )[1:]
    assert built.error is None
    assert seen.out.splitlines() == [
        "two words $model {oc}",
        "['on', '1', '2020-01-01', 'x y'] 0.0003 False",
        "5 ${architecture.n_embd}",
    ]


def test_plain_words_keep_their_text_where_a_text_is_wanted(cells):
    seen = cells(
        "%%theseus test/magic a --root r\ntraining.label: 0012\n", "print(q.config.training.label)"
    )[1]
    assert seen.out == "0012\n"


def test_another_name_and_the_root_of_the_last_cell(cells):
    no_root, first, second, seen, bad = cells(
        "%%theseus test/magic a\n",
        "%%theseus test/magic a --root r --project p --group g\n",
        "%%theseus test/magic b --as other\n",
        "print(q.name, q.identity.project, q.identity.group, other.name, other.root == q.root)",
        "%%theseus test/magic a --as two-words\n",
    )
    assert "--root ./theseus" in no_root.out
    assert first.error is None
    assert second.error is None
    assert seen.out == "a p g b True\n"
    assert "cannot be the name of a variable" in bad.out


def test_a_class_of_the_notebook_is_a_job_too(cells):
    seen = cells("%%theseus Magic a --root r\n", "print(q.job)")[1]
    assert seen.out == "test/magic\n"


def test_resources_show_the_spec(cells):
    (did,) = cells("%%theseus test/magic a --root r --chip h100 --gpus 4 --tp 2 --fsdp --zero\n")
    assert len(did.shown) == 2
    assert "h100 × 4" in did.shown[1]["text/plain"]
    assert "tp 2, fsdp, zero" in did.shown[1]["text/html"]


def test_run_trains_here(cells, tmp_path):
    (did,) = cells("%%theseus test/magic a --root r --run\ntraining.tokens: 7\n")
    assert did.error is None
    (metrics,) = (tmp_path / "r").glob("runs/*/*/*/metrics.jsonl")
    assert '"sum": 775' in metrics.read_text().replace(":7", ": 7")


def test_a_mistake_shows_at_its_line_with_the_nearest_key(cells):
    first = "%%theseus test/magic a --root r\n\n"
    cases = {
        "architecture: {n_emb: 128}\n": (
            "line 3: architecture.n_emb: no such key, did you mean 'architecture.n_embd'?\n"
            "    architecture: {n_emb: 128}\n"
            "                   ^"
        ),
        "architecture:\n  n_embd: wide\n": (
            "line 4: architecture.n_embd: expected int ≥ 1, got 'wide' (str)\n"
            "      n_embd: wide\n"
            "              ^"
        ),
        "# fine\narchitecture: 3\n": "line 4: expected keys and values under architecture, got 3",
        "training.tokens: 1\ntraining: {tokens: 2}\n": (
            "line 4: training.tokens is set already, on line 3"
        ),
        "training: [1\nx: 2\n": "line 4: not YAML",
        "training.tokens:\n\t1\n": "line 4: not YAML",
        "training.label: \x07\n": "line 3: not YAML",
        "- 1\n": "line 3: expected keys and values",
        "? [a]\n: 1\n": "line 3: a key is a word",
        "training.label: !!python/object:os.system x\n": "line 3: not YAML",
    }
    for (body, told), did in zip(
        cases.items(), cells(*(first + body for body in cases)), strict=True
    ):
        assert did.error == "CellError", body
        assert told in did.out
        assert "Traceback" not in did.out
        assert "run_cell_magic" not in did.out


def test_all_mistakes_show_at_once_and_nothing_is_bound(cells):
    good, bad, seen = cells(
        "%%theseus test/magic good --root r\n",
        "%%theseus test/magic bad\na.b: 1\ntraining.tokens: x\noptimization.lr: 1\n",
        "print(q.name)",
    )
    assert good.error is None
    assert "line 2: a.b" in bad.out
    assert "line 3: training.tokens" in bad.out
    assert "line 4" not in bad.out
    assert seen.out == "good\n"


def test_misuse_is_explained(cells):
    late, command, unknown = cells(
        "# a comment first\n%%theseus test/magic a --root r",
        "%%theseus jobs\nx: 1",
        "%%theseus test/magik a --root r\n",
    )
    assert "must be the first line of its cell" in late.out
    assert "%theseus jobs (one sign" in command.out
    assert "did you mean 'test/magic'" in unknown.out


def test_a_cell_run_again_leaves_one_session(cells):
    cell = "%%theseus test/magic a --root r\ntraining.tokens: {n}\n"
    *_, seen = cells(
        cell.replace("{n}", "1"),
        "old = q\nq",
        cell.replace("{n}", "2"),
        "print(configure(Training).tokens, old.config.training.tokens)",
    )
    assert seen.out == "2 1\n"


def test_unload_takes_everything_away_and_reload_brings_it_back(cells):
    state = (
        "m = get_ipython().magics_manager\n"
        "print(sorted(n for k in m.magics.values() for n in k if 'theseus' in n),"
        " len(get_ipython().input_transformers_cleanup))"
    )
    before, _, gone, used, _, _, after = cells(
        state,
        "%unload_ext theseus",
        state,
        "%theseus jobs",
        "%load_ext theseus",
        "%reload_ext theseus",
        state,
    )
    assert before.out == after.out
    assert "theseus" in before.out
    assert gone.out.startswith("[] ")
    assert used.error == "UsageError"


def test_an_error_outside_a_magic_is_one_message_too(cells):
    cells_did = cells(
        "%%theseus test/magic a --root r\n",
        "q.config.training.tokns = 1",
        "q.build('test/magik', 'x')",
    )
    assert "did you mean 'training.tokens'" in cells_did[1].out
    assert "Traceback" not in cells_did[1].out
    assert "did you mean 'test/magic'" in cells_did[2].out


def test_a_class_of_a_cell_travels_and_keeps_its_run(cells, tmp_path):
    *_, saved = cells(
        "%%theseus test/magic a --root r --run\n",
        "from theseus.runs import list_runs\n"
        "from theseus.combobulation import Combobulation\n"
        "q.save('out.yaml')\n"
        "c = Combobulation.load('out.yaml')\n"
        "print(list_runs('r')[0].id, c == q.spec(), 'class Magic(Job)' in str(c.job.travelling.sources))",
    )
    told = saved.out.split()
    assert told[1:] == ["True", "True"]
    elsewhere = run_cells(
        [LOAD, "%theseus run a out.yaml r --json"], tmp_path
    )[1]  # fmt: skip
    assert f'"id": "{told[0]}"' in elsewhere.out


# In a kernel


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.v4.new_notebook()
    client = NotebookClient(
        notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": tmp_path}}
    )

    def run(source):
        notebook.cells.append(nbformat.v4.new_code_cell(source))
        return client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)

    with client.setup_kernel():
        run(LOAD)
        run(JOB)
        yield run


def printed(cell):
    return "".join(one["text"] for one in cell.outputs if one["output_type"] == "stream")


def test_a_notebook_keeps_its_configuration(kernel):
    built = kernel("%%theseus test/magic one --root r\ntraining.tokens: 11\n")
    assert {"text/plain", "text/html"} <= set(built.outputs[0]["data"])
    kernel("import asyncio\nq.config.architecture.n_embd = 12\nawait asyncio.sleep(0.01)")
    assert printed(kernel("print(configure(Training).tokens, configure(Model).n_embd)")) == (
        "11 12\n"
    )
    kernel("await asyncio.sleep(0)\nq.build('test/magic', 'one')\nq.config.training.tokens = 13")
    assert printed(kernel("print(configure(Training).tokens, q.config.architecture.n_embd)")) == (
        "13 768\n"
    )
    in_thread = kernel(
        "import threading\n"
        "found = []\n"
        "t = threading.Thread(target=lambda: found.append(configure(Training).tokens))\n"
        "t.start(); t.join(); print(found)"
    )
    assert printed(in_thread) == "[13]\n"

    kernel("%%theseus test/magic two --as p\ntraining.tokens: 21\n")
    both = "print(q.config.training.tokens, p.config.training.tokens)"
    assert printed(kernel(both)) == "13 21\n"
    with pytest.raises(CellExecutionError, match="more than one session"):
        kernel("configure(Training)")
    with_first = kernel(
        "from theseus.config import configuration\n"
        "with configuration(q.config):\n"
        "    print(configure(Training).tokens)"
    )
    assert printed(with_first) == "13\n"

    again = "%%theseus test/magic two --as p\ntraining.tokens: 22\n"
    kernel(again)
    kernel(again)
    assert printed(kernel(both)) == "13 22\n"
    kernel("q.close()")
    assert printed(kernel("print(configure(Training).tokens)")) == "22\n"


def test_a_mistake_stops_a_headless_notebook(kernel):
    with pytest.raises(CellExecutionError, match=r"did you mean 'training\.tokens'"):
        kernel("%%theseus test/magic one --root r\ntraining.tokns: 11\n")
    with pytest.raises(CellExecutionError, match="did you mean 'test/magic'"):
        kernel("%theseus jobs test/magik")
    assert "test/magic" in printed(kernel("%theseus jobs"))


def test_run_in_a_kernel_shows_and_finishes(kernel):
    cell = kernel("%%theseus test/magic one --root r --run\ntraining.tokens: 11\n")
    text = "\n".join(str(one.get("data", {}).get("text/plain", "")) for one in cell.outputs)
    assert "training.tokens" in text
    assert "finished" in text


def test_loading_brings_nothing_heavy(tmp_path: Path):
    cell = """
import sys
before = set(sys.modules)
get_ipython().run_line_magic("load_ext", "theseus")
heavy = {"jax", "flax", "datasets", "matplotlib", "typer", "rich", "omegaconf"}
print(sorted(heavy & (set(sys.modules) - before)))
"""
    (did,) = run_cells([cell], tmp_path)
    assert did.out.strip() == "[]"


def test_a_cell_sends_its_job_and_the_notebook_watches_it(cells, tmp_path):
    """From the cell to the log: the same words as in a terminal, in another process of this machine."""
    tokens = f"""%%theseus data/tokenize/text "my tokens" --root {tmp_path}/root --submit
data.text.files: [{tmp_path}/*.txt]
tokenizer.backend: bytes"""
    (tmp_path / "a.txt").write_text("some text\n" * 50)
    inventory = f"""
from pathlib import Path
import os, sys
Path("hosts.yaml").write_text(f'''
hosts:
  me: {{{{type: local, python: {{sys.executable}}}}}}
''')
os.environ["THESEUS_CONFIG"] = os.path.abspath("hosts.yaml")
os.environ["XDG_STATE_HOME"] = {str(tmp_path / "state")!r}
"""
    dry, sent, log, status, runs = cells(
        inventory,
        tokens.replace("--submit", "--dry-run"),
        tokens,
        '%theseus logs "my tokens" -f',
        '%theseus status "my tokens"',
        "%theseus runs",
    )[1:]
    assert "would be asked, in this order:\n  me (local)" in dry.text
    assert sent.error is None, sent.text
    assert "my tokens" in sent.text
    # As far as it is by then.
    assert re.search(r"my tokens [0-9a-f]{8}  (queued|preparing|running)\b.*\bme\n", sent.text)
    assert "begins on" in log.out
    assert "ended  state finished" in log.out
    assert "finished on me" in status.out
    assert "my tokens" in runs.out
    assert list((tmp_path / "root").glob("runs/*/*/*/run.json"))


def test_run_and_submit_exclude_each_other(cells):
    told = cells("%%theseus data/tokenize/text a --root r --run --submit")[-1]
    assert "one of --run, --submit and --dry-run at a time" in told.text
