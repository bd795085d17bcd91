"""The digest of the user's code: what changes it, and what must not."""

import sys
from types import ModuleType

import pytest

from tests.runs.helpers import start_python
from theseus.runs.code import code_digest

SOURCE = """
from dataclasses import dataclass
from theseus.config import field
from theseus.job import Job

def helper(x):
    return x + 1

def unrelated(x):
    return x

class Model:
    WIDTH = 3

    def forward(self, x):
        return helper(x)

@dataclass
class Config:
    steps: int = field("a/steps", default=3)

class Trainer(Job):
    MODEL = Model
    CONFIG = Config

    def run(self, recorder):
        # a comment
        return self.MODEL().forward(1)
"""


@pytest.fixture
def digest_of(tmp_path):
    """Return a function from the source of a user's module to the digest of its job."""
    made = []

    def digest(source):
        name = f"users_module_{len(made)}"
        made.append(name)
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        exec(compile(source, str(path), "exec"), module.__dict__)
        return code_digest(module.Trainer, *module.Trainer.configs())

    yield digest
    for name in made:
        del sys.modules[name]


def test_the_same_code_in_another_file_is_the_same(digest_of):
    assert digest_of(SOURCE) == digest_of(SOURCE) != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another comment"),
        ("return x + 1", "return (x  +  1)"),
        ("def unrelated(x):\n    return x", "def unrelated(x):\n    return 2 * x"),
        ("class Model:", "\n\nclass Model:"),
    ],
)
def test_what_changes_nothing_does_not_count(digest_of, old, new):
    assert old in SOURCE
    assert digest_of(SOURCE.replace(old, new)) == digest_of(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x + 1", "return x + 2"),
        ("WIDTH = 3", "WIDTH = 4"),
        ("return helper(x)", "return helper(helper(x))"),
        ("forward(1)", "forward(2)"),
        ("class Model:", "class Base:\n    SCALE = 2\n\nclass Model(Base):"),
    ],
)
def test_what_the_job_reaches_counts(digest_of, old, new):
    assert old in SOURCE
    assert digest_of(SOURCE.replace(old, new)) != digest_of(SOURCE)


def test_classes_inside_the_values_of_class_fields_count(digest_of):
    source = SOURCE.replace("MODEL = Model", "DATASET = [(Model, 0.5)]").replace(
        "self.MODEL()", "self.DATASET[0][0]()"
    )
    assert digest_of(source.replace("x + 1", "x + 2")) != digest_of(source)
    assert digest_of(source.replace("0.5", "0.6")) != digest_of(source)


def test_a_value_that_cannot_be_read_is_left_out():
    import numpy as np

    class Plain:
        SIZE = 1

    class WithTable:
        SIZE = 1
        TABLE = np.arange(3)  # has no truth value, and a text that depends on numpy

    WithTable.__qualname__ = Plain.__qualname__
    assert code_digest(Plain) == code_digest(WithTable)


def test_installed_code_does_not_count():
    import omegaconf

    from theseus.job import Job

    assert code_digest(Job) == code_digest(omegaconf.OmegaConf) == code_digest(dict) == ""


def test_it_is_the_same_in_every_process(tmp_path):
    code = """
from dataclasses import dataclass
from theseus.runs.code import code_digest

class Typed:  # has no source file: its byte code counts
    LABELS = {"a": 1}
    def run(self, x):
        return x in {"red", "green", "blue", "yellow"}

print(code_digest(Typed))
"""
    digests = set()
    for seed in ("1", "2", "3"):
        process = start_python(code, PYTHONHASHSEED=seed)
        digests.add(process.communicate(timeout=60)[0])
    assert len(digests) == 1
    assert digests != {"\n"}
