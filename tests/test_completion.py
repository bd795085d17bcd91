"""What Tab offers, in a cell, on a line and in a terminal."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus import registry
from theseus._complete_body import Place, place
from theseus.completion import complete, complete_command
from theseus.config import field
from theseus.dispatch.registry import Entry, Registry
from theseus.job import Job


@dataclass
class Model:
    n_embd: int = field("architecture/n_embd", default=768, help="embedding width", ge=1)
    n_layers: int = field("architecture/n_layers", default=12)
    rope: bool = field("architecture/rope", default=True)
    act: Literal["relu", "gelu"] = field("architecture/act", default="gelu")
    width: int | None = field("training/width", default=None)
    tokens: int = field("training/tokens")


class Tiny(Job):
    """A tiny job."""

    CONFIG = Model

    def run(self, recorder):
        raise AssertionError


@pytest.fixture(autouse=True)
def job(monkeypatch):
    known = registry._registered["job"]
    monkeypatch.setitem(
        registry._registered,
        "job",
        {**known, "tiny/job": registry.Entry("tiny/job", Tiny, "A tiny job.")},
    )


def at(marked, **options):
    """Return the candidates at the `|` of a text."""
    cursor = marked.index("|")
    found = complete(marked.replace("|", "", 1), cursor, **options)
    assert all(one.end == cursor for one in found or [])
    return found


def texts(marked, **options):
    return [one.text for one in at(marked, **options)]


def after(marked):
    """Return the whole text after the only candidate was taken."""
    (one,) = at(marked)
    text = marked.replace("|", "", 1)
    return text[: one.start] + one.text + text[one.end :]


# The first line


def test_an_empty_first_line_lists_the_jobs_with_what_they_do():
    found = {one.text: one for one in at("%%theseus |")}
    assert set(found) == set(registry.keys("job"))
    assert found["tiny/job"].help == "A tiny job."
    assert {one.type for one in found.values()} == {"job"}


def test_the_beginning_or_a_part_of_a_job_finds_it():
    assert after("%%theseus tiny/|") == "%%theseus tiny/job"
    assert after("%%theseus pretr| x") == "%%theseus gpt/train/pretrain x"
    assert after("\n\n%%theseus GPT/|") == "\n\n%%theseus gpt/train/pretrain"
    assert texts("%%theseus zzz|") == []


def test_classes_of_the_notebook_are_jobs_too():
    assert texts("%%theseus Ti|", classes={"Tiny": Tiny}) == ["tiny/job", "Tiny"]
    assert "architecture.n_embd: " in texts("%%theseus Tiny a\n|", classes={"Tiny": Tiny})


def test_options_of_the_cell_are_offered_once_unless_they_may_repeat():
    assert texts("%%theseus tiny/job a --ru|") == ["--run"]
    offered = texts("%%theseus tiny/job a --run --chip h100 -|")
    assert {"--chip", "--fsdp", "--help"} <= set(offered)
    assert "--run" not in offered


@pytest.mark.parametrize(
    "marked", ["--chip h100-p|", "--chip=h100-p|", "--chip 'h100-p|", "--tp 2 --chip h100-p|"]
)
def test_chips(marked):
    assert after(f"%%theseus tiny/job a {marked}").strip("'").endswith("h100-pcie")


def test_a_name_that_is_free_brings_options_and_no_file_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    assert all(text.startswith("--") for text in texts("%%theseus tiny/job |"))
    assert texts("%%theseus tiny/job no|") == []


def test_folders_for_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a file").write_text("")
    assert texts("%%theseus tiny/job a --root a|") == ["'a folder/'"]
    assert texts('%%theseus tiny/job a --root "a |') == ['"a folder/"']


# The lines below


def test_keys_come_with_type_default_and_help():
    found = {one.text: one for one in at("%%theseus tiny/job a\n|")}
    one = found["architecture.n_embd: "]
    assert (one.type, one.detail, one.help) == ("key", "int ≥ 1 = 768", "embedding width")
    assert found["training.tokens: "].detail == "int, required"


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("architecture.n_e|", "architecture.n_embd: "),
        ("n_e|", "architecture.n_embd: "),
        ("architecture/n_e|", "architecture.n_embd: "),
        ("architecture:\n  n_e|", "  n_embd: "),
        ("architecture:\n  rope: true\n  n_e|", "  n_embd: "),
        ("training:\n  tokens: 1\narchitecture:\n\n    # wide\n    n_e|", "    n_embd: "),
        ("architecture: {n_e|", "architecture: {n_embd: "),
        ("architecture: {rope: true, n_e|", "architecture: {rope: true, n_embd: "),
        ("architecture: {\n  rope: true,\n  n_e|", "  n_embd: "),
        ("{architecture: {n_e|", "{architecture: {n_embd: "),
        ("arch|: 3", "architecture.: 3"),
        ("training.width: ${architecture.n_e|", "training.width: ${architecture.n_embd}"),
    ],
)
def test_keys_in_every_style(marked, expected):
    cell = f"%%theseus tiny/job a\n{marked}"
    if marked == "arch|: 3":
        assert "architecture.n_embd" in texts(cell)  # the colon is there already
    else:
        assert after(cell).split("\n")[-1] == expected


def test_a_key_that_is_set_is_not_offered_again():
    offered = texts("%%theseus tiny/job a\narchitecture: {n_embd: 3}\ntraining.tokens: 1\n|")
    assert "architecture.n_embd: " not in offered
    assert "training.tokens: " not in offered
    assert "architecture.rope: " in offered


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("architecture.rope: |", ["true", "false"]),
        ("architecture:\n  rope: f|", ["false"]),
        ("architecture: {rope: |", ["true", "false"]),
        ("architecture.act: |", ["relu", "gelu"]),
        ("training.width: |", ["null"]),
        ("architecture.n_embd: |", ["768"]),
        ("training.tokens: |", []),
        ("no.such: |", []),
        ("# architecture.n|", []),
        ("architecture.rope:|", []),
    ],
)
def test_values(marked, expected):
    assert texts(f"%%theseus tiny/job a\n{marked}") == expected


def test_other_cells_are_left_alone():
    for marked in (
        "print(|",
        "%%time\nx|",
        "%theseus|",
        "%%theseus|",
        "%theseusx |",
        "x = 3\n# %%theseus\ny|",
    ):
        assert at(marked) is None


@given(st.text(st.sampled_from(list("ab :{}[],-#'\"\n|>.$")), max_size=30))
def test_any_text_has_a_place_or_none(text):
    found = place(text)
    assert found is None or 0 <= found.start <= len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n- x\n- y", Place("value", "a", 9)),
        ("a: |\n  b: c\n  d", None),
        ("a: |\n  b: c\nd", Place("key", "", 12)),
        ('"a b":\n  c: ', Place("value", "a b.c", 12)),
        ("a: {b: [1, 2", Place("value", "a.b", 11)),
        ("a: {b: 'x, y', c", Place("key", "a", 15)),
        ("a: {b: 1}\nc", Place("key", "", 10)),
        ("a:\n  b:\n    c: 1\n  d", Place("key", "a", 19)),
    ],
)
def test_places(text, expected):
    assert place(text) == expected


# The line magic and the terminal


@pytest.fixture
def inventory(tmp_path, monkeypatch):
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "clusters:\n  lab: {root: /r}\nhosts:\n"
        "  box: {ssh: box, cluster: lab, chips: {h100: 8}}\n  here: {type: local}\n"
    )
    monkeypatch.setenv("THESEUS_CONFIG", str(file))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for number, (run, name) in enumerate(
        [("aa11bb", "my run"), ("cc22dd", "twice"), ("ee33ff", "twice")]
    ):
        Registry().put(
            Entry(
                run, name, "p1", "g", "tiny/job", "b", "box", "lab", "plain", "/f", submitted=number
            )
        )
    return file


def test_commands_and_their_options():
    assert {"jobs", "submit", "logs", "help"} <= set(texts("%theseus |"))
    assert "complete" not in texts("%theseus |")
    assert after("x = %theseus sub|") == "x = %theseus submit"
    assert texts("%theseus logs --fo|") == ["--follow"]
    assert texts("%theseus hosts te|") == ["test"]
    assert texts("%theseus help hos|") == ["hosts"]


def test_hosts_clusters_runs_and_labels(inventory):
    assert [(one.text, one.detail) for one in at("%theseus submit a f --host |")] == [
        ("box", "plain, 8 × h100"),
        ("here", "local"),
    ]
    assert texts("%theseus hosts test b|") == ["box"]
    assert texts("%%theseus tiny/job a --cluster l|") == ["lab", "local"]
    assert texts("%theseus logs |") == ["ee33ff", "cc22dd", "'my run'", "latest", "aa11bb"]
    assert after('%theseus cancel "my|') == '%theseus cancel "my run"'
    assert texts("%theseus submit a f --project |") == ["p1"]


def test_a_broken_inventory_offers_nothing(inventory):
    inventory.write_text("hosts: [1\n")
    assert texts("%theseus hosts test |") == ["--inventory", "--help"]


def test_assignments_take_the_keys_of_their_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert after("%theseus configure tiny/job f architecture.n_e|").endswith("architecture.n_embd=")
    assert texts("%theseus configure tiny/job f architecture.act=g|") == ["gelu"]
    Path("f.yaml").write_text("v: 1\njob: tiny/job\nname: a\nconfig: {}\n")
    assert texts("%theseus submit a f.yaml training.tok|") == ["training.tokens="]
    assert texts("%theseus run a none.yaml r training.tok|") == []


def test_a_terminal_has_the_same(inventory):
    line = "theseus hosts test bo"
    (one,) = complete_command(line, len(line))
    assert (one.start, one.end, one.text) == (19, 21, "box")
    assert complete_command("theseus", 7) == []


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("theseus hosts test bo", "bo", ["box"]),
        ("theseus configure data/tokenize/text f tokenizer.backend=by", "by", ["bytes"]),
        ("theseus logs my", "my", ["'my run'"]),
    ],
)
def test_bash_is_answered_in_its_own_way(inventory, line, word, expected):
    done = subprocess.run(
        [sys.executable, "-m", "theseus", "complete", "theseus", word, "x"],
        env={**os.environ, "COMP_LINE": line, "COMP_POINT": str(len(line))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"{one} " for one in expected]


# Speed, and what is not imported

CACHED = """
import json, sys, time
from theseus.completion import complete
text = "%%theseus data/tokenize/text a\\ntokenizer."
times, found = [], None
for _ in range(6):
    begun = time.perf_counter()
    found = complete(text, len(text))
    times.append(time.perf_counter() - begun)
heavy = {"jax", "flax", "datasets", "numpy", "matplotlib", "theseus.data.tokenize"} & set(sys.modules)
print(json.dumps([times, [one.text for one in found], sorted(heavy)]))
"""


def test_keys_of_a_built_in_job_are_kept_and_import_nothing(tmp_path):
    def told(**more):
        done = subprocess.run(
            [sys.executable, "-c", CACHED],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), **more},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    times, found, heavy = told()
    assert "tokenizer.backend: " in found
    assert heavy == []
    assert min(times) < 0.1
    kept = tmp_path / "cache/theseus/keys/data.tokenize.text.json"
    written = kept.stat().st_mtime_ns
    assert told()[1:] == [found, heavy]
    assert kept.stat().st_mtime_ns == written  # read, not made again
    kept.write_text(kept.read_text().replace('"made_of": "', '"made_of": "x'))
    assert told()[1] == found
    assert json.loads(kept.read_text())["made_of"][0] != "x"


def test_nobody_waits_for_keys_longer_than_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("theseus._job_keys._loaded", lambda entry: None)
    begun = time.monotonic()
    assert texts("%%theseus data/tokenize/hub a\n|", wait=0.05) == []
    assert time.monotonic() - begun < 0.6
    assert "data.max_tokens: " in texts("%%theseus data/tokenize/hub a\ndata.|", wait=60)
