"""The recipe: build, set, create; sessions that survive notebooks."""

import asyncio
import gc
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from theseus.config import ConfigError, InvalidValueError, UnknownKeyError, configure, field
from theseus.errors import UserError
from theseus.job import Job
from theseus.quick import QuickJob, init, quick
from theseus.registry import dataset, job


@dataclass
class SmallConfig:
    width: int = field("architecture/width", default=8, help="how wide", ge=1)
    label: str = field("data/label", default="plain")
    needed: int = field("data/needed", help="how many")


@job("test/quick/small")
class Small(Job):
    """Add up to the width."""

    CONFIG = SmallConfig

    def run(self, recorder):
        width = configure(SmallConfig).width
        for step in range(width):
            recorder.report(step, {"train/loss": 1.0 / (step + 1)})


@dataset("test-quick-words")
class Words:
    pass


@pytest.fixture
def q(tmp_path, monkeypatch):
    monkeypatch.setenv("THESEUS_PROGRESS", "none")
    with quick(tmp_path) as session:
        yield session


def test_a_key_or_a_class_chooses_the_job(q):
    q.build("test/quick/small", "one")
    assert q.job_class is Small
    q.build(Small, "two", project="p", group="g")
    assert (q.job, q.name, q.identity.project, q.identity.group) == (
        "test/quick/small",
        "two",
        "p",
        "g",
    )


def test_names_are_free_text(q):
    q.build(Small, "dont matter what's here now")
    assert q.name == "dont matter what's here now"


@pytest.mark.parametrize("name", ["", "   ", None, 3, "a\ud800b"])
def test_a_name_that_says_nothing_is_refused(q, name):
    with pytest.raises(UserError, match="the name"):
        q.build(Small, name)


def test_an_unknown_job_names_the_nearest(q):
    with pytest.raises(UserError, match="did you mean 'test/quick/small'"):
        q.build("test/quick/smal", "x")


def test_a_dataset_is_not_a_job(q):
    with pytest.raises(UserError, match="Words is a dataset, not a job"):
        q.build(Words, "x")
    with pytest.raises(UserError, match="SmallConfig is not a job"):
        q.build(SmallConfig, "x")


def test_config_is_typed_and_unknown_keys_are_refused(q):
    q.build(Small, "x")
    q.config.architecture.width = 4
    with pytest.raises(UnknownKeyError, match=r"did you mean 'architecture\.width'"):
        q.config.architecture.widht = 4
    with pytest.raises(InvalidValueError):
        q.config.architecture.width = "wide"


def test_building_again_starts_from_the_defaults(q):
    q.build(Small, "x")
    q.config.architecture.width = 4
    q.build(Small, "x")
    assert q.config.architecture.width == 8


def test_before_build_config_says_what_to_do_first(q):
    for name in ("config", "name", "job", "job_class", "identity"):
        with pytest.raises(UserError, match=r"after q\.build"):
            getattr(q, name)
    with pytest.raises(UserError, match=r"after q\.build"):
        q.create()


def test_a_misspelt_attribute_is_an_ordinary_error(q):
    with pytest.raises(AttributeError):
        q.confg  # noqa: B018
    with pytest.raises(AttributeError):
        q.confg = {}


def test_config_is_not_replaced_as_a_whole(q):
    q.build(Small, "x")
    with pytest.raises(UserError, match=r"theseus\.config\.load"):
        q.config = {"architecture": {"width": 3}}
    assert q.config.architecture.width == 8


def test_create_takes_a_copy(q):
    q.build(Small, "x")
    q.config.data.needed = 1
    made = q.create()
    q.config.architecture.width = 1
    assert made.config.architecture.width == 8
    assert made.root == q.root
    assert made.identity.name == "x"


def test_a_created_job_runs(q):
    q.build(Small, "x")
    q.config.data.needed = 1
    q.config.architecture.width = 3
    run = q.create()()
    assert run.status()["state"] == "finished"
    assert run.job == "test/quick/small"


def test_missing_keys_are_named_before_anything_is_written(q, tmp_path):
    q.build(Small, "x")
    with pytest.raises(UserError, match=r"data\.needed"):
        q.create()()
    assert list(tmp_path.iterdir()) == []


def test_root_is_expanded_and_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert QuickJob("~/theseus").root == tmp_path / "theseus"
    monkeypatch.chdir(tmp_path)
    here = QuickJob("runs/../here")
    monkeypatch.chdir("/")
    assert here.root == tmp_path / "here"
    assert QuickJob(Path("/a")).root == Path("/a")


@pytest.mark.parametrize("root", ["", "  ", None, 3])
def test_a_root_that_is_no_folder_is_refused(root):
    with pytest.raises(UserError, match="root: the folder"):
        init(root)


def test_a_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        init(tmp_path / "file")


def test_an_unknown_home_is_refused():
    with pytest.raises(UserError, match="root: ~nobody-of-this-name"):
        init("~nobody-of-this-name/x")


# Sessions


def test_configure_finds_the_open_session(q):
    q.build(Small, "x")
    q.config.architecture.width = 5
    q.config.data.needed = 1
    assert configure(SmallConfig).width == 5


def test_configure_finds_it_in_a_thread_and_in_a_task(q):
    q.build(Small, "x")
    q.config.data.needed = 7
    found = []
    thread = threading.Thread(target=lambda: found.append(configure(SmallConfig).needed))
    thread.start()
    thread.join()

    async def ask():
        await asyncio.sleep(0)
        return configure(SmallConfig).needed

    assert [*found, asyncio.run(ask())] == [7, 7]


def test_a_closed_session_is_not_found(tmp_path):
    with quick(tmp_path) as q:
        q.build(Small, "x")
        q.config.data.needed = 1
    assert q.config.data.needed == 1
    with pytest.raises(ConfigError, match="no configuration is active"):
        configure(SmallConfig)


def test_with_two_open_sessions_configure_asks_which(tmp_path):
    with quick(tmp_path) as one, quick(tmp_path) as two:
        one.build(Small, "first")
        two.build(Small, "second")
        one.config.data.needed = two.config.data.needed = 1
        with pytest.raises(ConfigError, match=r"'first' .* and 'second'"):
            configure(SmallConfig)
        one.config.architecture.width = 2
        assert two.create().config.architecture.width == 8


def test_a_cell_run_twice_leaves_one_session(tmp_path):
    kept = []  # as the notebook's output history does
    for width in (1, 2):
        q = init(tmp_path)
        q.build(Small, "again")
        q.config.architecture.width = width
        q.config.data.needed = 1
        kept.append(q)
    assert configure(SmallConfig).width == 2
    assert kept[0].config.architecture.width == 1
    q.close()


def test_a_forgotten_session_is_gone(tmp_path):
    q = init(tmp_path)
    q.build(Small, "x")
    del q
    gc.collect()
    with pytest.raises(ConfigError, match="no configuration is active"):
        configure(SmallConfig)


# Showing


def test_a_recipe_shows_what_was_changed_and_what_is_missing(q):
    q.build(Small, "show me")
    q.config.architecture.width = 32768
    text = repr(q)
    assert "show me" in text
    assert "test/quick/small" in text
    assert "32_768" in text
    assert "default 8" in text
    assert "data.needed" in text
    assert "data.label" not in text


def test_an_empty_recipe_says_what_comes_next(q):
    assert "q.build(" in repr(q)
    assert str(q).startswith("an empty recipe")


def test_html_is_escaped(q):
    q.build(Small, "<script>alert(1)</script>")
    q.config.data.label = "<b>\x1b[31m"
    page = q._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in repr(q)


def test_secrets_of_the_environment_are_shown_as_written(q, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    q.build(Small, "x")
    q.config.data.label = "${oc.env:HF_TOKEN}"
    for shown in (repr(q), q._repr_html_(), str(q.spec()), q.spec()._repr_html_()):
        assert "verysecret" not in shown
        assert "HF_TOKEN" in shown
