"""A recipe plus resources: immutable, readable, and the same again after a file."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from theseus._plain import escape, unescape
from theseus.combobulation import Combobulation, Resources, SpecError
from theseus.config import configure, field, load, to_plain
from theseus.errors import UserError
from theseus.hardware.resources import parse_size
from theseus.job import Job
from theseus.quick import QuickJob
from theseus.registry import job


@dataclass
class EveryType:
    whole: int = field("a/whole", default=1)
    real: float = field("a/real", default=1.0)
    switch: bool = field("a/switch", default=False)
    text: str = field("a/text", default="")
    maybe: int | None = field("a/maybe", default=None)
    choice: Literal["adamw", "muon"] = field("a/choice", default="adamw")
    many: list[str] = field("b/many", default=[])
    pairs: dict[str, float] = field("b/pairs", default={})
    unset: int = field("b/unset")


@job("test/combobulation/small")
class Small(Job):
    CONFIG = EveryType

    def run(self, recorder):
        recorder.report(1, {"whole": configure(EveryType).whole})


@pytest.fixture
def q(tmp_path):
    return QuickJob(tmp_path).build(Small, "train-gpt")


def through_a_file(c: Combobulation, folder: Path) -> Combobulation:
    OmegaConf.save(c.serialize(), folder / "out.yaml")
    return Combobulation.deserialize(OmegaConf.load(folder / "out.yaml"))


# Asking for resources


def test_the_seeds_chain(q):
    c = q.spec().chip("h100").gpu(4).shard(tp=2, fsdp=True, zero=True)
    assert c.resources.chips == ("h100",)
    assert c.resources.gpus == 4
    assert str(c.resources.sharding) == "tp 2, fsdp, zero"


def test_every_call_returns_a_new_one(q):
    first = q.spec()
    second = first.gpu(2)
    assert first.resources.gpus is None
    assert second.resources.gpus == 2
    assert first != second
    with pytest.raises(AttributeError):
        first.resources = Resources()


def test_chips_clusters_and_what_is_avoided_add_up(q):
    c = q.spec().chip("h100").chip("a100-sxm4-80gb").chip("h100")
    assert c.resources.chips == ("h100", "a100-sxm4-80gb")
    c = c.cluster("one").cluster("two").avoid("three")
    assert (c.resources.clusters, c.resources.avoid) == (("one", "two"), ("three",))


def test_a_later_shard_keeps_what_it_does_not_name(q):
    c = q.spec().shard(tp=2).shard(fsdp=True)
    assert str(c.resources.sharding) == "tp 2, fsdp"


def test_the_recipe_does_not_follow_later_changes(q):
    q.config.a.whole = 2
    c = q.spec()
    q.config.a.whole = 3
    c.config.a.whole = 4
    assert c.config.a.whole == 2


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda c: c.chip("h1000"), "did you mean 'h100'"),
        (lambda c: c.chip("a100"), "more than one chip"),
        (lambda c: c.chip(""), "expected a name"),
        (lambda c: c.gpu(-1), "gpus: a whole number"),
        (lambda c: c.gpu("4"), "gpus: a whole number"),
        (lambda c: c.gpu(True), "gpus: a whole number"),
        (lambda c: c.cpu(0), "cpus: a whole number of at least 1"),
        (lambda c: c.nodes(None), "nodes: a whole number"),
        (lambda c: c.memory("64X"), "memory: a size such as '64G'"),
        (lambda c: c.memory(0), "memory: a whole number"),
        (lambda c: c.shard(tp=0), "tp: a whole number"),
        (lambda c: c.shard(fsdp="yes"), "fsdp: True or False"),
        (lambda c: c.gpu(4).shard(tp=3), r"tp=3 does not divide 4 chips; possible: 1, 2, 4"),
        (lambda c: c.shard(tp=3).gpu(4), "tp=3 does not divide 4"),
        (lambda c: c.gpu(3).nodes(2), "cannot be spread evenly"),
        (lambda c: c.cluster("x").avoid("x"), "both asked for and avoided"),
    ],
)
def test_what_cannot_be_meant_is_refused(q, ask, told):
    with pytest.raises(UserError, match=told):
        ask(q.spec())


@pytest.mark.parametrize(
    ("size", "want"),
    [
        ("64G", 64 * 2**30),
        ("64 GiB", 64 * 2**30),
        ("64gb", 64 * 2**30),
        ("1.5T", 3 * 2**39),
        ("512M", 2**29),
        ("1024", 1024),
        ("1_000", 1000),
        (7, 7),
        (None, None),
    ],
)
def test_sizes(size, want):
    assert parse_size(size) == want


# Showing


def test_it_reads_as_a_short_summary(q):
    q.config.a.whole = 32_768
    text = str(q.spec().chip("h100").gpu(4).memory("64G").shard(tp=2))
    assert "train-gpt" in text
    assert "test/combobulation/small" in text
    assert "h100 × 4" in text
    assert "64 GiB" in text
    assert "tp 2" in text
    assert "a.whole = 32_768" in text
    assert len(text.splitlines()) < 10


@pytest.mark.parametrize(
    ("ask", "want"),
    [
        (lambda c: c, "any"),
        (lambda c: c.gpu(0), "none"),
        (lambda c: c.gpu(2), "2 of any kind"),
        (lambda c: c.chip("h100", "h200"), "h100 or h200, any number"),
    ],
)
def test_chips_read_as_words(q, ask, want):
    lines = str(ask(q.spec())).splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.split()[0] == "chips"] == [want]


def test_its_html_is_escaped(tmp_path):
    c = QuickJob(tmp_path).build(Small, "<i>x</i>").spec()
    assert "<i>" not in c._repr_html_()


def test_one_from_a_file_names_its_groups(q, tmp_path):
    assert "a, b" in str(through_a_file(q.spec(), tmp_path))


# To a file and back


def test_it_comes_back_equal(q, tmp_path):
    q.config.a.maybe = 3
    q.config.b.pairs = {"x": 1.5}
    q.config.a.text = "${b.many}"
    c = q.spec().chip("h100").gpu(4).cpu(8).memory("64G").cluster("x").avoid("y").nodes(2)
    again = through_a_file(c.shard(tp=2, fsdp=True, zero=True), tmp_path)
    assert again == c.shard(tp=2, fsdp=True, zero=True)
    assert OmegaConf.is_missing(again.config.b, "unset")


def test_the_file_is_plain(q):
    saved = q.spec().chip("h100").serialize()
    assert list(saved) == ["v", "job", "name", "project", "group", "resources", "config"]
    assert saved.v == 1
    assert saved.resources.chips == ["h100"]
    assert saved.config.a.whole == 1


def test_equal_means_the_same_to_run(q):
    assert q.spec() == q.spec()
    assert hash(q.spec()) == hash(q.spec())
    one = q.spec()
    q.config.a.real = 2.0
    assert q.spec() != one
    assert q.spec() != "something else"


values = st.fixed_dictionaries(
    {
        "whole": st.integers(-(2**70), 2**70),
        "real": st.floats(allow_nan=False),
        "switch": st.booleans(),
        "text": st.text(st.characters(exclude_categories=["Cs"])).filter(lambda t: "${" not in t),
        "maybe": st.none() | st.integers(),
        "choice": st.sampled_from(["adamw", "muon"]),
    }
)
plain_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
AWKWARD = r"""
yes|null|~|1e5|3e-4|0x10|1_000|12:30|2020-01-01|.inf|a: b|# x|???|${a}|${|\${a}|\|- x|'|"|é|ﬀ|{}
"""
awkward = st.sampled_from([*AWKWARD.strip().split("|"), "\tx", "x\x85", "\u2028x", "a\r\nb"])


@settings(max_examples=40, deadline=None)
@given(values, st.lists(plain_text | awkward), plain_text | awkward, plain_text | awkward)
def test_any_configuration_and_any_name_come_back(
    tmp_path_factory, given_values, many, name, group
):
    folder = tmp_path_factory.getbasetemp()
    q = QuickJob(folder).build(Small, name, group=group)
    given_values["text"] = given_values["text"].replace("???", "")
    load(
        q.config,
        {"a": given_values, "b": {"many": [m for m in many if "${" not in m and m != "???"]}},
    )
    before = q.spec()
    after = through_a_file(before, folder)
    assert after == before
    assert after.identity == before.identity
    again = after.quick(folder)
    assert Combobulation.deserialize(again.spec().serialize()) == before
    assert str(to_plain(again.config)) == str(to_plain(q.config))


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("\\${}a:b ")))
def test_escaped_text_means_itself_to_omegaconf(text):
    assert unescape(escape(text)) == text
    assert OmegaConf.create({"x": escape(text)}).x == text


def test_an_interpolation_written_by_hand_stays():
    assert unescape("${oc.env:USER}") == "${oc.env:USER}"


# Reading strictly


@pytest.fixture
def saved(q):
    return OmegaConf.to_container(q.spec().chip("h100").serialize(), resolve=False)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: f.pop("v"), "no format number"),
        (lambda f: f.update(v=2), "of format 2"),
        (lambda f: f.update(confg={}), "no 'confg', did you mean 'config'"),
        (lambda f: f.pop("name"), "no 'name'"),
        (lambda f: f.update(name=""), "expected a name"),
        (lambda f: f.update(config=[1]), "config: expected keys and values"),
        (lambda f: f.update(job=3), "job: expected keys and values"),
        (lambda f: f.update(job={"clas": "a:B"}), "did you mean 'class'"),
        (lambda f: f["resources"].update(chip=["h100"]), "did you mean 'chips'"),
        (lambda f: f["resources"].update(chips="h100"), "resources.chips: expected a list"),
        (lambda f: f["resources"].update(chips=["h10"]), "did you mean 'h100'"),
        (lambda f: f["resources"].update(gpus=2.5), "gpus: a whole number"),
        (lambda f: f["resources"].update(sharding={"fsd": True}), "no 'fsd', did you mean 'fsdp'"),
    ],
)
def test_a_wrong_file_is_refused_with_the_nearest_word(saved, change, told):
    change(saved)
    with pytest.raises(UserError, match=told):
        Combobulation.deserialize(saved)


def test_a_hand_written_file_may_leave_defaults_out():
    c = Combobulation.deserialize(
        {
            "v": 1,
            "job": "test/combobulation/small",
            "name": "x",
            "resources": {"memory": "8G", "gpus": 2},
            "config": {"a": {"whole": 5}},
        }
    )
    assert c.resources.memory == 8 * 2**30
    assert c.identity.project == "general"
    assert c.quick("/tmp").config.a.whole == 5


def test_an_interpolated_resource_is_not_resolved_when_read(saved, monkeypatch):
    monkeypatch.setenv("WHERE", "here")
    saved["project"] = "${oc.env:WHERE}"
    assert Combobulation.deserialize(OmegaConf.create(saved)).identity.project == "${oc.env:WHERE}"


def test_an_unknown_key_of_the_config_shows_when_the_job_is_made(saved, tmp_path):
    saved["config"]["a"]["whol"] = 1
    c = Combobulation.deserialize(saved)
    with pytest.raises(UserError, match=r"did you mean 'a\.whole'"):
        c.create(tmp_path)


def test_a_job_that_is_not_here_says_how_to_bring_it(saved, tmp_path):
    saved["job"] = {"key": "some/where/else", "class": "no_such_module_here:Thing"}
    with pytest.raises(UserError, match=r"no module 'no_such_module_here'.*--import"):
        Combobulation.deserialize(saved).create(tmp_path)
    saved["job"] = {"class": "theseus.quick:QuickJobb"}
    with pytest.raises(UserError, match="did you mean 'QuickJob'"):
        Combobulation.deserialize(saved).create(tmp_path)
    saved["job"] = "no/such/job"
    with pytest.raises(UserError, match="no job is registered"):
        Combobulation.deserialize(saved).create(tmp_path)


def test_create_runs_the_job_of_the_file(q, tmp_path, monkeypatch):
    monkeypatch.setenv("THESEUS_PROGRESS", "none")
    q.config.b.unset = 1
    run = through_a_file(q.spec(), tmp_path).create(tmp_path)()
    assert run.status()["state"] == "finished"


def test_an_unchanged_class_travels_by_name(q):
    assert q.spec().serialize().job == {
        "key": "test/combobulation/small",
        "class": f"{Small.__module__}:Small",
    }


# Classes that cannot be imported elsewhere

SCRIPT = """
from __future__ import annotations
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal
import sys
from omegaconf import OmegaConf
from theseus.config import configure, field
from theseus.job import Job
from theseus.quick import quick
from theseus.registry import job
from theseus.runs.code import code_digest

Path(sys.argv[0]).with_name("was-run").touch()

class Mode(Enum):
    ON = 1
    OFF = 2

@dataclass
class Inner:
    depth: int = 3

@dataclass
class Config:
    mode: Mode = field("a/mode", default=Mode.ON)
    kind: Literal["${x}", "y"] = field("a/kind", default="y")
    size: int | None = field("a/size")
    inner: Inner = field("inner")

def factor():
    return 10

class Base(Job):
    CONFIG = Config
    def run(self, recorder):
        raise AssertionError

@job("test/travel/job")
class Travels(Base):
    CONFIG = Config  # what is inherited, said again
    def run(self, recorder):
        values = configure(Config)
        recorder.report(1, {"product": values.size * factor() * values.inner.depth})

if __name__ == "__main__":
    with quick(sys.argv[1]) as q:
        q.build(Travels, "by value")
        q.config.a.size = 4
        q.config.inner.depth = 2
        OmegaConf.save(q.spec().serialize(), Path(sys.argv[1]) / "out.yaml")
    print(code_digest(Travels))
"""

OPEN = """
import sys
from omegaconf import OmegaConf
from theseus.combobulation import Combobulation
from theseus.runs.code import code_digest
c = Combobulation.deserialize(OmegaConf.load(sys.argv[1] + "/out.yaml"))
assert "cloudpickle" not in sys.modules
print(c)
job = c.create(sys.argv[1])
run = job()
print("state", run.status()["state"])
print("product", run.metrics()[-1]["product"] if callable(run.metrics) else run.metrics[-1])
print("digest", code_digest(type(job)), c.job.travelling.digest)
again = c.quick(sys.argv[1]).spec()
print("again", again == c, again.job.travelling.digest == c.job.travelling.digest)
"""


def python(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "THESEUS_PROGRESS": "none",
            "PATH": "/usr/bin:/bin",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def travelled(tmp_path):
    script = tmp_path / "there" / "my_script.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    digest = python(script, tmp_path, cwd=tmp_path).strip()
    script.unlink()
    (tmp_path / "there" / "was-run").unlink()
    return tmp_path, digest


def test_a_class_of_a_script_works_where_the_script_is_not(travelled):
    folder, digest = travelled
    told = python("-c", OPEN, folder, cwd=folder)
    assert "by value" in told
    assert "state finished" in told
    assert "80" in told.split("product")[1].splitlines()[0]
    assert f"digest {digest} {digest}" in told
    assert "again True True" in told
    assert not (folder / "there" / "was-run").exists()


def test_the_file_shows_the_source_beside_the_payload_and_names_no_path(travelled):
    folder, _ = travelled
    text = (folder / "out.yaml").read_text()
    assert "def factor():" in text
    assert str(folder) not in text
    saved = Combobulation.deserialize(OmegaConf.load(folder / "out.yaml"))
    assert SCRIPT in saved.job.travelling.sources.values()


def test_reading_a_file_runs_nothing(travelled):
    folder, _ = travelled
    text = (folder / "out.yaml").read_text()
    payload = next(line for line in text.splitlines() if line.strip().startswith("payload:"))
    (folder / "out.yaml").write_text(text.replace(payload, "  payload: bm90IGEgcGlja2xl"))
    c = Combobulation.deserialize(OmegaConf.load(folder / "out.yaml"))
    assert c.job.name == "test/travel/job"
    with pytest.raises(UserError, match="damaged"):
        c.create(folder)


def test_byte_code_of_another_python_is_refused_before_it_is_loaded(travelled):
    folder, _ = travelled
    saved = OmegaConf.load(folder / "out.yaml")
    saved.job.python = "2.7"
    with pytest.raises(UserError, match=r"Python 2\.7.*--import"):
        Combobulation.deserialize(saved).create(folder)


def test_a_class_that_cannot_travel_says_so(tmp_path):
    def make():
        lock = __import__("threading").Lock()

        class Held(Job):
            def run(self, recorder):
                lock.acquire()

        return Held

    q = QuickJob(tmp_path).build(make(), "x")
    with pytest.raises(UserError, match=r"Held cannot be sent.*put it into a module"):
        q.spec()


def test_spec_errors_are_user_errors():
    assert issubclass(SpecError, UserError)
