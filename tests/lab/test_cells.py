"""What the editor is told about `%%theseus` cells."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from theseus.lab import cells, checking

FIRST = "%%theseus gpt/train/pretrain t --root x\n"


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    cells.close()


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def shown(cell: str, place: dict[str, int]) -> str:
    """Return what JavaScript's `cell.slice(from, to)` gives."""
    data = cell.encode("utf-16-le")
    part: bytes = data[2 * place["from"] : 2 * place["to"]]
    return part.decode("utf-16-le")


def mended(cell: str) -> str:
    """Return a cell after the fix of its only mistake."""
    (mistake,) = cells.check(cell)["mistakes"]
    fix = mistake["fix"]
    data = cell.encode("utf-16-le")
    new = data[: 2 * fix["from"]] + fix["text"].encode("utf-16-le") + data[2 * fix["to"] :]
    return new.decode("utf-16-le")


@pytest.fixture(scope="module")
def keys_known() -> None:
    """The keys are at hand, as they are after the first Tab of this version."""
    from theseus._job_keys import keys_of_job

    assert keys_of_job("gpt/train/pretrain")


@pytest.mark.usefixtures("keys_known")
def test_keys_come_with_type_default_and_help_at_their_place() -> None:
    cell = FIRST + "# 😀\narchitecture: {n_em"
    found = cells.complete(cell, units(cell))
    assert (found["from"], found["to"]) == (units(cell) - 4, units(cell))
    assert found["items"] == [
        {
            "text": "n_embd: ",
            "kind": "key",
            "type": "int ≥ 1",
            "default": "768",
            "help": "width of the residual stream",
        }
    ]


def test_jobs_and_chips_come_on_the_first_line() -> None:
    job = cells.complete("%%theseus gpt/tr", 16)
    assert (job["from"], [one["text"] for one in job["items"]]) == (10, ["gpt/train/pretrain"])
    line = "%%theseus gpt/train/pretrain t --chip h2"
    assert "h200" in [one["text"] for one in cells.complete(line, len(line))["items"]]


@pytest.mark.parametrize(
    ("body", "at", "message", "after"),
    [
        pytest.param(
            "architecture: {n_emb: 64}",
            "n_emb",
            "architecture.n_emb: no such key, did you mean 'architecture.n_embd'?",
            "architecture: {n_embd: 64}",
            id="flow",
        ),
        pytest.param(
            "# 😀\narchitecture:\n  n_embb: 64\n",
            "n_embb",
            "architecture.n_embb: no such key, did you mean 'architecture.n_embd'?",
            "# 😀\narchitecture:\n  n_embd: 64\n",
            id="below",
        ),
        pytest.param(
            '"architecture/n_emb": 64',
            '"architecture/n_emb"',
            "architecture.n_emb: no such key, did you mean 'architecture.n_embd'?",
            '"architecture.n_embd": 64',
            id="quoted",
        ),
    ],
)
def test_a_mistyped_key_is_found_where_it_stands_and_mended(
    body: str, at: str, message: str, after: str
) -> None:
    (found,) = cells.check(FIRST + body)["mistakes"]
    assert (shown(FIRST + body, found), found["message"]) == (at, message)
    assert mended(FIRST + body) == FIRST + after
    assert cells.check(FIRST + after) == {"mistakes": []}


@pytest.mark.parametrize(
    ("body", "at", "message"),
    [
        (
            "architecture.n_layers: 0",
            "0",
            "architecture.n_layers: expected int ≥ 1, got 0 (int)",
        ),
        (
            "architecture.n_embd: [1,\n  2]",
            "[1,",
            "architecture.n_embd: expected int ≥ 1, got [1, 2] (list)",
        ),
        (
            "training.tokens: 2024-13-45",
            "2024-13-45",
            "training.tokens: not a value of YAML: month must be in 1..12",
        ),
        ("a: [1", "1", "not YAML: expected ',' or ']', but got '<stream end>'"),
    ],
)
def test_other_mistakes_say_what_configuration_says(body: str, at: str, message: str) -> None:
    (found,) = cells.check(FIRST + body)["mistakes"]
    assert (shown(FIRST + body, found), found["message"]) == (at, message)
    assert found["fix"] is None


def test_words_of_the_first_line_are_mended() -> None:
    assert mended("%%theseus gpt/train/pretran t") == "%%theseus gpt/train/pretrain t"
    assert mended("%%theseus mine t --gpu 4") == "%%theseus mine t --gpus 4"
    assert mended("%%theseus mine t --chip=h10") == "%%theseus mine t --chip=h100"


def test_a_job_of_the_notebook_is_left_to_its_kernel() -> None:
    assert cells.check("%%theseus MyJob t\nwhatever: 1") == {"mistakes": []}
    assert cells.check("%%theseus my/own/job t\nwhatever: 1") == {"mistakes": []}


def test_values_from_python_are_not_evaluated(tmp_path: Path) -> None:
    cell = (
        "%%theseus gpt/train/pretrain t --expand\n"
        f"architecture.n_embd: ${{{{open('{tmp_path}/made', 'w')}}}}\narchitecture.nn: ${{{{1}}}}\n"
    )
    (found,) = cells.check(cell)["mistakes"]
    assert found["message"].startswith("architecture.nn: no such key")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("keys_known")
def test_a_key_explains_itself() -> None:
    cell = FIRST + "# 😀\narchitecture: {n_layers: 1, n_embd: 64}"
    at = units(cell[: cell.index("n_embd") + 2])
    found = cells.hover(cell, at)
    assert found is not None
    assert shown(cell, found) == "n_embd"
    told = {name: found[name] for name in ("key", "type", "default", "help", "owner")}
    assert told["owner"].startswith("GPT")
    assert told == {
        "key": "architecture.n_embd",
        "type": "int ≥ 1",
        "default": "768",
        "help": "width of the residual stream",
        "owner": told["owner"],
    }
    assert cells.hover(cell, units(cell) - 2) is None  # the value


def test_jobs_and_options_explain_themselves() -> None:
    assert (cells.hover(FIRST, 12) or {})["help"] == "train a GPT from its first step"
    assert (cells.hover(FIRST, FIRST.index("--root") + 1) or {})["key"] == "--root"


@pytest.mark.parametrize("cell", ["print(1)", "# %%theseus\nx: 1", "%%theseusx a\nb: 1", ""])
def test_other_cells_are_untouched(cell: str) -> None:
    assert cells.complete(cell, len(cell))["items"] == []
    assert cells.check(cell) == {"mistakes": []}
    assert cells.hover(cell, 0) is None


yaml_like = st.text("architecture.n_embd:{}[]-#'\"|&*!%@\\ \t\n\r0😀\x85\u2028${}", max_size=40)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["", "%%theseus ", FIRST, "%%theseus gpt/train/pretrain t --expand\n"]),
    st.one_of(st.text(max_size=40), yaml_like),
    st.integers(-5, 200),
)
@pytest.mark.usefixtures("keys_known")
def test_no_text_raises_and_every_place_is_inside(first: str, rest: str, offset: int) -> None:
    cell = first + rest
    length = len(cell.encode("utf-16-le", "surrogatepass")) // 2
    found = cells.complete(cell, offset)
    assert 0 <= found["from"] <= found["to"] <= length
    for one in cells.check(cell)["mistakes"]:
        assert 0 <= one["from"] <= one["to"] <= length
        assert one["message"]
    told = cells.hover(cell, offset)
    assert told is None or 0 <= told["from"] < told["to"] <= length


def test_deep_and_long_texts_are_survived() -> None:
    for body in ("[" * 5000, "a: " + "9" * 5000, "x: 1\n" * 60_000, "a: &a [*a]"):
        cells.check(FIRST + body)
        cells.complete(FIRST + body, 50)
        cells.hover(FIRST + body, 50)


@pytest.mark.slow
def test_jax_stays_out_of_the_server() -> None:
    code = (
        "import sys\n"
        "from theseus.lab import cells\n"
        f"cell = {FIRST + 'architecture: {n_emb: 1}'!r}\n"
        "assert cells.check(cell)['mistakes']\n"
        "cells.complete(cell, 60), cells.hover(cell, 60)\n"
        "assert not {'jax', 'flax'} & set(sys.modules)\n"
        "print(cells.checker.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert gone(int(done.stdout))  # the process that checks ends with its server


def test_the_process_ends_when_idle_and_comes_back() -> None:
    checker = checking.Checker(idle=0.3)
    try:
        assert checker.ask("data/tokenize/text", "x: 1")
        first = checker.pid
        assert first is None or waited(lambda: checker.pid is None)
        assert checker.ask("data/tokenize/text", "y: 1")
    finally:
        checker.close()
    assert checker.pid is None


def waited(true: object) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def gone(pid: int) -> bool:
    def ended() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return waited(ended)
