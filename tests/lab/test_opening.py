"""A saved recipe as a cell: read as the cell magic reads it, it makes the same recipe again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import Sending
from tests.lab.conftest import Ask
from theseus.cli.call import read
from theseus.cli.cell import app
from theseus.combobulation import Combobulation
from theseus.config import describe
from theseus.lab.opening import cell_of
from theseus.notebook.cell import apply
from theseus.quick import QuickJob

JOB = "data/tokenize/text"


def made_from(cell: str, root: Path) -> Combobulation:
    """Return the recipe that a `%%theseus` cell makes."""
    first, _, body = cell.partition("\n")
    magic, *words = shlex.split(first)
    assert magic == "%%theseus"
    call: Any = read(app, words, "%%theseus")
    recipe = QuickJob(root).build(call.job, call.name, call.project, call.group)
    apply(recipe.config, body)
    spec = recipe.spec()
    return call.asked.applied(spec) if call.asked else spec


@pytest.fixture
def spec(tmp_path: Path) -> Combobulation:
    recipe = QuickJob(tmp_path).build(JOB, "dont matter what's here now", "my work", "a|b")
    recipe.config.data.text.files = ["a b.txt", "ü/*.txt"]
    recipe.config.data.val_pct = 1e-3
    recipe.config.tokenizer.eos = "<|end|>"
    plain = recipe.spec().chip("h100").chip("a100-sxm4-80gb").gpu(8).cpu(4).memory("64G").nodes(2)
    return plain.cluster("lab").avoid("campus").shard(tp=2, fsdp=True, zero=True)


def test_a_cell_makes_the_same_recipe(spec: Combobulation, tmp_path: Path) -> None:
    keys = describe(QuickJob(tmp_path).build(JOB, "x").config)
    cell = cell_of(spec, JOB, keys)
    assert made_from(cell, tmp_path) == spec
    assert cell.splitlines()[0] == (
        "%%theseus data/tokenize/text 'dont matter what'\"'\"'s here now' --project 'my work' "
        "--group 'a|b' --chip h100 --chip a100-sxm4-80gb --cluster lab --avoid campus --gpus 8 "
        "--cpus 4 --memory 64G --nodes 2 --tp 2 --fsdp --zero"
    )
    assert "val_pct" in cell
    assert "seed" not in cell  # as by default
    # Where the keys are not known, all of it is written down.
    whole = cell_of(spec, JOB, [])
    assert "seed: 0" in whole
    assert made_from(whole, tmp_path) == spec


def test_a_recipe_without_changes_is_one_line(tmp_path: Path) -> None:
    recipe = QuickJob(tmp_path).build(JOB, "tokens")
    cell = cell_of(recipe.spec(), JOB, describe(recipe.config))
    assert cell == "%%theseus data/tokenize/text tokens\n"
    noted = replace(recipe.spec(), notes=("two\nlines",))
    assert cell_of(noted, JOB, describe(recipe.config)).endswith("# not taken over: two lines\n")


async def test_a_file_is_opened_as_a_cell(
    spec: Combobulation, ask: Ask, sending: Sending, jp_root_dir: Path, tmp_path: Path
) -> None:
    (jp_root_dir / "deep").mkdir()
    spec.save(jp_root_dir / "deep/out.yaml")
    cell = (await ask("recipes/open", {"path": "deep/out.yaml"}))["notebook"]
    assert made_from(cell, tmp_path) == spec
    # The class of this one is the user's own: no key names it, and it is not loaded either.
    sending.spec("count").save(jp_root_dir / "deep/own.yaml")
    cell = (await ask("recipes/open", {"path": "/deep/own.yaml"}))["notebook"]
    assert "Combobulation.load('own.yaml')" in cell
    compile(cell, "cell", "exec")


@pytest.fixture
def untouched(jp_root_dir: Path) -> Iterator[Path]:
    """Return where a file must not have been made by the end of a test."""
    path = jp_root_dir / "bad"
    yield path
    assert not path.exists()


async def test_only_recipes_inside_are_opened(
    ask: Ask, jp_root_dir: Path, tmp_path: Path, untouched: Path
) -> None:
    QuickJob(tmp_path).build(JOB, "tokens").spec().save(tmp_path / "outside.yaml")
    (jp_root_dir / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    (jp_root_dir / ".hidden.yaml").write_text("v: 1")
    (jp_root_dir / "other.yaml").write_text("hosts: {}")
    (jp_root_dir / "no.txt").write_text("v: 1")
    (jp_root_dir / "tagged.yaml").write_text(
        f"v: !!python/object/apply:os.system ['touch {untouched}']"
    )
    for path, status in (
        ("../outside.yaml", 403), ("link.yaml", 403), (str(tmp_path / "outside.yaml"), 404),
        (".hidden.yaml", 403), ("no.txt", 404), ("none.yaml", 404), ("", 404),
        ("other.yaml", 400), ("tagged.yaml", 400), (None, 400),
    ):  # fmt: skip
        code, told = await ask("recipes/open", {"path": path})
        assert code == status, (path, told)
    assert "v: 1" in (await ask("recipes/open", {"path": "other.yaml"}))[1]["message"]
