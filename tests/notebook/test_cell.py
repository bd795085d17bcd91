"""The lines of a cell: values from Python, and mistakes at their place; no shell is needed."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.config import build, field
from theseus.errors import UserError
from theseus.notebook import mistakes
from theseus.notebook.cell import CellError, apply
from theseus.notebook.expand import ExpandError, Expansion
from theseus.notebook.mistakes import Written, located


@dataclass
class Keys:
    n: int = field("a/n", default=1)
    x: float = field("a/x", default=1.0)
    on: bool = field("a/on", default=False)
    text: str = field("b/text", default="")
    names: list[str] = field("b/names", default=[])
    sizes: list[int] = field("b/sizes", default=[])
    table: dict[str, int] = field("b/table", default={})
    width: int | None = field("b/width", default=3)


def applied(text, **names):
    config = build(Keys)
    apply(config, text, names)
    return config


def told(text, names=None):
    with pytest.raises(CellError) as caught:
        apply(build(Keys), text, names)
    return str(caught.value)


# --expand


def test_values_pass_as_values():
    config = applied(
        "a: {n: ${{n}}, x: ${{ n / 4 }}, on: ${{ n > 3 }}}\n"
        "b.text: ${{ word }}\n"
        "b.names: ${{ [word, 'on'] }}\n"
        "b.sizes: [${{n}}, ${{ n * 2 }}]\n"
        "b.table: ${{ {'k': {'v': 1}['v']} }}\n"
        "b.width: ${{ None }}\n",
        n=5,
        word="0012: {x}",
    )
    assert (config.a.n, config.a.x, config.a.on) == (5, 1.25, True)
    assert config.b.text == "0012: {x}"  # a text stays one, whatever YAML would take it for
    assert config.b.names == ["0012: {x}", "on"]
    assert config.b.sizes == [5, 10]
    assert config.b.table == {"k": 1}
    assert config.b.width is None


def test_numpy_values_and_whole_groups():
    config = applied(
        "a: ${{ group }}\nb.sizes: ${{ sizes }}\n", group={"n": np.int64(7)}, sizes=np.arange(3)
    )
    assert (config.a.n, config.b.sizes) == (7, [0, 1, 2])


def test_in_quotes_and_among_text_it_is_text():
    config = applied('b:\n  text: run-${{n}}-${{ n + 1 }}\n  names: ["${{n}}", "é${{ n }}"]\n', n=5)
    assert config.b.text == "run-5-6"
    assert config.b.names == ["5", "é5"]
    assert applied("b.text: |\n  n is ${{n}}\n", n=5).b.text == "n is 5\n"
    assert applied("${{ key }}: 4\n", key="a.n").a.n == 4


def test_an_interpolation_stays_one_beside_it():
    config = applied('b.text: "${a.n} and ${{n}}"\n', n=5)
    config.a.n = 9
    assert config.b.text == "9 and 5"


def test_only_what_is_reached_is_evaluated():
    seen = []
    config = applied("a.n: 2 # ${{ seen.append(1) }}\n", seen=seen)
    assert (config.a.n, seen) == (2, [])
    told("a.n: ${{ seen.append(1) }}\nb: [1\n", {"seen": seen})
    assert seen == []
    applied("b.text: ${{ str(seen.append(1)) }}\n", seen=seen)
    assert seen == [1]


def test_nothing_is_evaluated_unless_asked():
    with pytest.raises(CellError, match="--expand"):
        apply(build(Keys), "a.n: ${{ 1 / 0 }}\n")
    with pytest.raises(CellError, match="--expand"):
        apply(build(Keys), "a: {n: ${{ n }}}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a.n: 1\nb.text: ${{ numbr }}\n",
            "line 3: name 'numbr' is not defined, did you mean 'number'?\n    b.text: ${{ numbr }}\n            ^",
        ),
        ("a.n: ${{ 1 / 0 }}\n", "line 2: 1 / 0 raised ZeroDivisionError: division by zero"),
        ("a.n: ${{ 1 + }}\n", "line 2: not an expression of Python"),
        ("a.n: ${{ x = 1 }}\n", "line 2: not an expression of Python"),
        ("a.n: ${{ 1\n}}\n", "line 2: '${{' without '}}' on its line"),
        (
            "a.n: ${{ 'wide' }}\n",
            "line 2: a.n: expected int, got 'wide' (str)\n    a.n: ${{ 'wide' }}\n         ^",
        ),
        ("a.n: ${{ object }}\n", "line 2: a.n: expected int"),
        (
            "b.sizes: [1, ${{ number }}, ${{ wrong }}]\n",
            "    b.sizes: [1, ${{ number }}, ${{ wrong }}]\n                                ^",
        ),
    ],
)
def test_mistakes_in_expressions_show_at_their_place(text, expected):
    assert expected in told(text, {"number": 3})


def test_every_mistake_of_the_expressions_is_told():
    found = told("a.n: ${{ x }}\nb.text: ${{ y }}\n", {})
    assert "line 2: name 'x'" in found
    assert "line 3: name 'y'" in found


@given(st.text(st.sampled_from(list("ab: ${}[]\n'\"é")), max_size=30))
def test_lines_and_columns_stay_whatever_is_written(text):
    try:
        marked = Expansion(text, {}).text
    except ExpandError:  # an expression without its end
        return
    assert len(marked) == len(text)
    assert [len(line) for line in marked.split("\n")] == [len(line) for line in text.split("\n")]


# Mistakes on the first line


def test_the_line_and_its_number_are_found_in_the_cell():
    cell = "x = 1\n  y = %theseus jobs  --jsn\n"
    assert Written.of("%theseus", "jobs  --jsn", cell) == Written(
        "  y = %theseus jobs  --jsn", 15, 2
    )
    twice = "%theseus jobs\n%theseus jobs\n"
    assert Written.of("%theseus", "jobs", twice).number is None


@pytest.mark.parametrize(
    ("line", "message", "pointed"),
    [
        ("jobz -v", "No such command 'jobz'. Did you mean 'jobs'?", "jobz"),
        ("jobs --jsn", "No such option: --jsn Did you mean --json?", "--jsn"),
        ("run 'my run' --tp=x", "Invalid value for '--tp': 'x' is not an integer.", "--tp=x"),
        ("a b --chip h10", "no chip is called 'h10', did you mean 'h100'?", "h10"),
        ("jobs 'a b", "cannot read the words on this line", "'"),
    ],
)
def test_a_caret_is_below_the_word(line, message, pointed):
    written = Written.of("%theseus", line, f"1\n%theseus {line}")
    first, shown, caret = located(message, written).split("\n")
    assert first == f"line 2: {message}"
    begin = caret.index("^") - 4
    assert shown[4:][begin : begin + caret.count("^")] == pointed


def test_what_is_missing_is_pointed_at_the_end():
    shown = located(
        "Missing argument 'NAME'.\nUsage: …", Written.of("%%theseus", "a/b", "%%theseus a/b")
    )
    assert shown.split("\n") == [
        "line 1: Missing argument 'NAME'.",
        "    %%theseus a/b",
        "                 ^",
        "Usage: …",
    ]


def test_a_message_about_no_word_of_the_line_stays():
    assert located("the host is down", Written.of("%theseus", "runs", "")) == "the host is down"


def test_a_fault_of_ours_keeps_its_traceback_folded(capsys):
    with pytest.raises(mistakes.Fault) as caught, mistakes.shown():
        raise KeyError("<b>")
    (line,) = caught.value._render_traceback_()
    assert "KeyError: '<b>'" in line
    assert "not in what you wrote" in line
    assert "Traceback" not in line
    bundle = mistakes.details(caught.value.__cause__)
    assert bundle["text/html"].startswith("<details")
    assert "&lt;b&gt;" in bundle["text/html"]
    assert "<b>" not in bundle["text/html"]
    assert "Traceback" in bundle["text/plain"]
    assert "test_cell.py" in bundle["text/plain"]


def test_a_mistake_of_the_user_and_an_error_of_their_code_stay_what_they_are():
    with pytest.raises(UserError) as caught, mistakes.shown():
        raise UserError("no")
    assert caught.value._render_traceback_() == ["UserError: no"]
    with pytest.raises(ZeroDivisionError), mistakes.shown(faults=False):
        raise ZeroDivisionError
