"""What a configuration accepts, refuses and says."""

from __future__ import annotations

import asyncio
import copy
import enum
import json
import pickle
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from theseus.config import (
    MISSING,
    ConfigError,
    ConflictError,
    InvalidValueError,
    MissingValueError,
    UnknownKeyError,
    build,
    changed,
    check_complete,
    configuration,
    configure,
    describe,
    field,
    load,
    override,
    register_session,
    to_plain,
    unregister_session,
)

CASES = json.loads((Path(__file__).parent / "cases" / "config.json").read_text())


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Model:
    n_embd: int = field("architecture/n_embd", default=128, ge=1, help="width")
    dropout: float = field("architecture/dropout", default=0.0, ge=0, le=1)


@dataclass
class Everything:
    integer: int = field("a/integer", default=0)
    real: float = field("a/real", default=0.0)
    flag: bool = field("a/flag", default=False)
    text: str = field("a/text", default="")
    maybe: int | None = field("a/maybe", default=None)
    choice: Literal["adamw", "muon"] = field("a/choice", default="adamw")
    color: Color = field("a/color", default=Color.RED)
    numbers: list[int] = field("a/numbers", default=[1, 2])
    pair: tuple[int, str] = field("a/pair", default=(1, "x"))
    table: dict[str, int] = field("a/table", default={"one": 1})


FIELD_OF_CASE = {
    "int field": "integer",
    "float field": "real",
    "bool field": "flag",
    "optional int field": "maybe",
    "literal field adamw|muon": "choice",
}


@pytest.mark.parametrize("how", ["assignment", "load", "merge", "update"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['what']}-{case['input']}")
def test_a_value_is_checked_however_it_is_set(case: dict[str, Any], how: str) -> None:
    name, value = FIELD_OF_CASE[case["what"]], case["input"]
    config = build(Everything)

    def put() -> Any:
        if how == "assignment":
            config.a[name] = value
        elif how == "load":
            load(config, {"a": {name: value}})
        elif how == "merge":
            return OmegaConf.merge(config, {"a": {name: value}}).a[name]
        else:
            OmegaConf.update(config, f"a.{name}", value)
        return config.a[name]

    if case["want"] == "error":
        with pytest.raises(InvalidValueError) as caught:
            put()
        assert f"a.{name}" in str(caught.value)
        assert repr(value) in str(caught.value)
    else:
        found = put()
        assert found == case["want"]
        assert type(found) is type(case["want"])


def test_falsy_defaults_are_defaults() -> None:
    config = build(Everything)
    check_complete(config)
    assert to_plain(config)["a"] == {
        "integer": 0,
        "real": 0.0,
        "flag": False,
        "text": "",
        "maybe": None,
        "choice": "adamw",
        "color": "RED",
        "numbers": [1, 2],
        "pair": [1, "x"],
        "table": {"one": 1},
    }


def test_an_unknown_key_names_the_nearest() -> None:
    config = build(Model)
    with pytest.raises(UnknownKeyError, match=r"architecture\.n_emb: .*'architecture\.n_embd'"):
        config.architecture.n_emb = 1
    with pytest.raises(UnknownKeyError, match="did you mean 'architecture'"):
        _ = config.architectur
    with pytest.raises(UnknownKeyError, match=r"architecture\.dropout"):
        load(config, {"architecture": {"dropuot": 0.1}})
    with pytest.raises(UnknownKeyError, match=r"architecture\.n_embd"):
        OmegaConf.merge(config, {"architecture": {"n_embed": 1}})


def test_an_unknown_key_is_still_an_attribute_error_and_a_key_error() -> None:
    config = build(Model)
    assert not hasattr(config, "nothing")
    with pytest.raises(KeyError):
        _ = config["nothing"]


def test_bounds_and_choices_are_part_of_the_check() -> None:
    config = build(Model)
    with pytest.raises(InvalidValueError, match="≥ 1"):
        config.architecture.n_embd = 0
    with pytest.raises(InvalidValueError, match="from 0 to 1"):
        config.architecture.dropout = 1.5
    with pytest.raises(InvalidValueError):
        config.architecture.dropout = float("nan")
    everything = build(Everything)
    with pytest.raises(InvalidValueError, match="did you mean 'adamw'"):
        everything.a.choice = "adam"


def test_collections_are_checked_when_edited_in_place() -> None:
    config = build(Everything)
    config.a.numbers.append(3)
    config.a.table.two = 2
    for edit in (
        lambda: config.a.numbers.append("x"),
        lambda: config.a.numbers.insert(0, 2.5),
        lambda: config.a.numbers.__setitem__(0, True),
        lambda: setattr(config.a.table, "three", "x"),
        lambda: setattr(config.a, "pair", [1, "x", 2]),
    ):
        with pytest.raises(InvalidValueError):
            edit()
    assert config.a.numbers == [1, 2, 3]
    assert config.a.table == {"one": 1, "two": 2}


def test_a_default_is_not_shared_between_configurations() -> None:
    build(Everything).a.numbers.append(3)
    assert build(Everything).a.numbers == [1, 2]


def test_enums_are_set_by_member_name_or_value() -> None:
    config = build(Everything)
    for value in (Color.BLUE, "BLUE", 2):
        config.a.color = value
        assert config.a.color is Color.BLUE
    with pytest.raises(InvalidValueError):
        config.a.color = "GREEN"


def test_keys_of_flax_modules_are_checked_too() -> None:
    import flax.linen as nn

    class Net(nn.Module):
        width: int = field("net/width", default=3, ge=1)

    config = build(Net)
    for wrong in ("abc", 2.5, None, 0):
        with pytest.raises(InvalidValueError):
            config.net.width = wrong
    config.net.width = "5"
    with configuration(config):
        module = configure(Net)
    assert module.width == 5
    assert hash(module) == hash(Net(width=5))


def test_one_key_in_two_classes_is_one_value() -> None:
    @dataclass
    class Trainer:
        n_embd: int = field("architecture/n_embd", default=128, le=4096)

    config = build(Model, Trainer)
    config.architecture.n_embd = 64
    with configuration(config):
        assert configure(Model).n_embd == configure(Trainer).n_embd == 64
    with pytest.raises(InvalidValueError, match="from 1 to 4096"):
        config.architecture.n_embd = 5000
    (record,) = [r for r in describe(config) if r.key == "architecture.n_embd"]
    assert [owner.rpartition(".")[2] for owner in record.owners] == ["Model", "Trainer"]


def test_two_types_for_one_key_name_both_classes() -> None:
    @dataclass
    class Other:
        n_embd: str = field("architecture/n_embd", default="wide")

    with pytest.raises(ConflictError, match=r"Model says int.*Other says str"):
        build(Model, Other)


def test_two_defaults_for_one_key_leave_it_unset_and_show_both() -> None:
    @dataclass
    class Other:
        n_embd: int = field("architecture/n_embd", default=256)

    config = build(Model, Other)
    with pytest.raises(MissingValueError, match=r"128 in Model and 256 in .*Other"):
        _ = config.architecture.n_embd
    with pytest.raises(MissingValueError, match="128 in Model"):
        check_complete(config)
    config.architecture.n_embd = 64
    check_complete(config)


def test_a_key_cannot_be_a_value_and_a_group() -> None:
    @dataclass
    class Other:
        inner: int = field("architecture/n_embd/inner", default=1)

    with pytest.raises(ConflictError, match="a value in Model, but a group of keys in"):
        build(Model, Other)


def test_every_key_without_a_value_is_named_with_its_class() -> None:
    @dataclass
    class Wants:
        first: int = field("x/first")
        second: str = field("x/second")

    config = build(Model, Wants)
    with pytest.raises(MissingValueError) as caught:
        check_complete(config)
    text = str(caught.value)
    assert "x.first (int): wanted by" in text
    assert "x.second (str): wanted by" in text
    assert "Wants" in text


def test_nested_dataclasses_keep_the_keys_of_every_level() -> None:
    config = build(Outer)
    assert to_plain(config) == {"a": {"x": 1}, "b": {"y": 2}, "c": {"z": 3, "plain": {"w": 4}}}
    config.c.z = 30
    config.c.plain.w = 40
    with configuration(config):
        outer = configure(Outer)
    assert (outer.x, outer.middle.y, outer.middle.inner.z) == (1, 2, 30)
    assert outer.middle.inner.plain.w == 40


@dataclass
class Plain:
    w: int = 4


@dataclass
class Inner:
    z: int = field("c/z", default=3)
    plain: Plain = field("c/plain")


@dataclass
class Middle:
    inner: Inner
    y: int = field("b/y", default=2)


@dataclass
class Outer:
    middle: Middle
    x: int = field("a/x", default=1)


def test_interpolation_is_kept_resolved_and_checked() -> None:
    config = build(Everything)
    config.a.integer = 7
    config.a.real = "${a.integer}"
    assert config.a.real == 7.0
    assert to_plain(config)["a"]["real"] == "${a.integer}"
    config.a.text = "run-${a.integer}"
    with configuration(config):
        assert configure(Everything).text == "run-7"
    config.a.text = "words"
    config.a.integer = "${a.text}"
    with pytest.raises(InvalidValueError, match=r"a\.integer"):
        check_complete(config)


def test_loading_sets_all_or_nothing() -> None:
    config = build(Model)
    with pytest.raises(InvalidValueError) as caught:
        load(config, {"architecture": {"n_embd": 64, "dropout": "much"}})
    assert caught.value.key == "architecture.dropout"
    assert config.architecture.n_embd == 128
    load(config, {"architecture.n_embd": 64, "architecture": {"dropout": 0.5}})
    assert changed(config) == {"architecture.dropout": 0.5, "architecture.n_embd": 64}


def test_assigning_a_group_sets_its_keys_and_keeps_their_types() -> None:
    config = build(Model)
    config.architecture = {"n_embd": 64}
    assert to_plain(config)["architecture"] == {"n_embd": 64, "dropout": 0.0}
    with pytest.raises(InvalidValueError):
        config.architecture.n_embd = "wide"
    with pytest.raises(InvalidValueError, match="group of keys"):
        config.architecture = 3


def test_overrides_read_text_by_the_type_of_the_key() -> None:
    config = build(Everything)
    override(
        config,
        ["a.integer=1_000", "a.text=007", "a.maybe=null", "a.numbers=[4, 5]", "a/flag=yes"],
    )
    assert (config.a.integer, config.a.text, config.a.maybe) == (1000, "007", None)
    assert (list(config.a.numbers), config.a.flag) == ([4, 5], True)
    override(config, ["a.text=b=c"])
    assert config.a.text == "b=c"
    with pytest.raises(ConfigError, match="key=value"):
        override(config, ["a.integer"])
    with pytest.raises(UnknownKeyError, match=r"a\.integer"):
        override(config, ["a.intger=1"])


def test_a_copy_a_merge_and_a_pickle_stay_typed() -> None:
    config = build(Everything)
    for twin in (
        copy.deepcopy(config),
        OmegaConf.merge(config, {"a": {"integer": 1}}),
        pickle.loads(pickle.dumps(config)),
    ):
        with pytest.raises(InvalidValueError):
            twin.a.integer = "x"
        with pytest.raises(UnknownKeyError):
            twin.a.nothing = 1
    assert config.a.integer == 0


def test_an_instance_may_be_overridden_alone() -> None:
    config = build(Model)
    with configuration(config):
        assert configure(Model, n_embd="32").n_embd == 32
        with pytest.raises(InvalidValueError):
            configure(Model, n_embd=0)
        with pytest.raises(UnknownKeyError, match="did you mean 'n_embd'"):
            configure(Model, n_emb=3)
    assert config.architecture.n_embd == 128


def test_configuring_a_class_that_was_not_built_names_it() -> None:
    with (
        configuration(build(Model)),
        pytest.raises(UnknownKeyError, match=r"a\.integer: Everything"),
    ):
        configure(Everything)


def test_configuring_without_a_configuration_says_how_to_give_one() -> None:
    with pytest.raises(ConfigError, match="with configuration"):
        configure(Model)


class Session:
    def __init__(self, width: int) -> None:
        self.config = build(Model, values={"architecture.n_embd": width})

    def __str__(self) -> str:
        return f"session {self.config.architecture.n_embd}"


def test_an_open_session_is_found_from_a_thread_and_another_context() -> None:
    session = Session(64)
    register_session(session)
    try:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(configure(Model).n_embd))
        thread.start()
        thread.join()

        async def cell() -> int:
            await asyncio.sleep(0)
            return configure(Model).n_embd

        assert [*found, asyncio.run(cell())] == [64, 64]
    finally:
        unregister_session(session)


def test_two_open_sessions_are_never_mixed() -> None:
    sessions = [Session(64), Session(32)]
    for session in sessions:
        register_session(session)
    try:
        with pytest.raises(ConfigError, match="session 32 and session 64"):
            configure(Model)
        for session in sessions:
            with configuration(session.config):
                assert configure(Model).n_embd == session.config.architecture.n_embd
    finally:
        for session in sessions:
            unregister_session(session)


def test_describe_tells_everything_about_a_key() -> None:
    config = build(Model)
    config.architecture.n_embd = 64
    record = next(r for r in describe(config) if r.key == "architecture.n_embd")
    assert (record.type, record.default, record.value) == ("int", 128, 64)
    assert (record.help, record.ge, record.le, record.owners) == ("width", 1, None, ("Model",))

    @dataclass
    class Wants:
        first: int = field("x/first")

    (record,) = describe(Wants)
    assert record.default is MISSING
    assert record.value is MISSING


def test_a_wrong_default_is_refused_where_it_is_declared() -> None:
    @dataclass
    class Wrong:
        x: int = field("x/y", default="many")

    with pytest.raises(InvalidValueError, match="the default in"):
        build(Wrong)


def test_text_that_looks_like_code_is_only_text() -> None:
    config = build(Everything)
    config.a.text = "__import__('os').system('true')"
    assert config.a.text == "__import__('os').system('true')"


json_values = st.fixed_dictionaries(
    {
        "integer": st.integers(-(2**53), 2**53),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans(),
        "text": st.text(
            st.characters(codec="utf-8", exclude_characters="$\\?\x00", exclude_categories=["Cc"])
        ),
        "maybe": st.none() | st.integers(-(2**31), 2**31),
        "numbers": st.lists(st.integers(-(2**31), 2**31)),
        "table": st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 9)),
    }
)


@given(json_values)
def test_a_configuration_survives_its_yaml(values: dict[str, Any]) -> None:
    config = build(Everything, values={"a": values})
    again = build(Everything, values=OmegaConf.create(OmegaConf.to_yaml(config)))
    assert to_plain(again) == to_plain(config)
