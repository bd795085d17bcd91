"""What was changed, as code, YAML and a command line, gives the same configuration back."""

from __future__ import annotations

import enum
import shlex
from dataclasses import dataclass
from typing import Any, Literal

import yaml
from hypothesis import given
from hypothesis import strategies as st

from theseus import config as configuration
from theseus import snippets
from theseus._plain import frozen
from theseus.config import build, field, load, override
from theseus.notebook.cell import apply


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Everything:
    i: int = field("numbers/i", default=0)
    f: float = field("numbers/deep/f", default=0.5)
    oi: int | None = field("numbers/oi", default=3)
    b: bool = field("b", default=True)
    s: str = field("text/items", default="x")  # a name that mappings have a method of
    os: str | None = field("text/os", default="y")
    c: Literal["a", "b"] = field("choice/c", default="a")
    e: Colour = field("choice/e", default=Colour.RED)
    li: list[int] = field("many/li", default=[1])
    ls: list[str] = field("many/ls", default=["a"])
    d: dict[str, float] = field("many/d", default={})


# Text that OmegaConf means for itself: `${…}` refers, `???` is missing.
texts = st.text(st.characters(exclude_categories=["Cs"])).filter(
    lambda text: "${" not in text and text != "???"
)
numbers = st.floats(allow_nan=False)
values = st.fixed_dictionaries(
    {},
    optional={
        "numbers.i": st.integers(),
        "numbers.deep.f": numbers,
        "numbers.oi": st.none() | st.integers(),
        "b": st.booleans(),
        "text.items": texts,
        "text.os": st.none() | texts | st.sampled_from(["null", '"null"', '"', "~"]),
        "choice.c": st.sampled_from("ab"),
        "choice.e": st.sampled_from(list(Colour)),
        "many.li": st.lists(st.integers()),
        "many.ls": st.lists(texts),
        "many.d": st.dictionaries(texts, numbers),
    },
)


def content(config: Any) -> Any:
    return frozen(configuration.changed(config))


@given(values)
def test_each_form_pastes_back_to_the_same_configuration(wanted: dict[str, Any]) -> None:
    config = build(Everything)
    load(config, wanted)

    q = type("Q", (), {"config": build(Everything)})
    exec(snippets.python(config), {"q": q})
    assert content(q.config) == content(config)

    text = snippets.as_yaml(config)
    again = build(Everything)
    load(again, yaml.safe_load(text) or {})
    assert content(again) == content(config)
    cell = build(Everything)
    apply(cell, text)
    assert content(cell) == content(config)

    _, _, job, file, *words = shlex.split(snippets.command(config, "a/job").replace("\\\n", " "))
    typed = build(Everything)
    override(typed, words)
    assert (job, file) == ("a/job", "out.yaml")
    assert content(typed) == content(config)


def test_the_code_is_short() -> None:
    config = build(Everything)
    load(config, {"numbers.i": 32768, "choice.e": "BLUE", "numbers.oi": None, "text.items": "a b"})
    assert snippets.python(config) == (
        "q.config.choice.e = 'BLUE'\n"
        "q.config.numbers.i = 32_768\n"
        "q.config.numbers.oi = None\n"
        "q.config.text['items'] = 'a b'\n"
    )
    assert snippets.as_yaml(config) == (
        "choice.e: BLUE\nnumbers:\n  i: 32768\n  oi: null\ntext.items: a b\n"
    )
    assert "'text.items=a b'" in snippets.command(config, "a/job")
    assert snippets.python(build(Everything)) == snippets.as_yaml(build(Everything)) == ""
