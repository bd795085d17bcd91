"""A recipe beside the hardware that it asks for, as the command line and the widget show it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.small import BIG, WORK
from theseus.cli.call import execute
from theseus.combobulation import Combobulation
from theseus.hardware.remedies import Way
from theseus.quick import QuickJob
from theseus.sizing import (
    REMAT,
    ROWS,
    Sizing,
    changes_of,
    devices_of,
    is_known_here,
    on_processors,
    resources_of,
    value_of,
    with_values,
    workload_of,
)


@pytest.fixture(scope="module")
def spec() -> Combobulation:
    recipe = QuickJob("/nowhere").build("gpt/train/pretrain", "train-gpt")
    recipe.config.training.per_device_batch_size = 2
    return recipe.spec()


def applied(found: Sizing, way: Way) -> Combobulation:
    changed = with_values(found.spec, changes_of(found.setting, way))
    asked = resources_of(found, way)
    return changed._with(**{name: getattr(asked, name) for name in ("chips", "gpus", "sharding")})


def test_every_way_leads_to_a_recipe_that_fits(spec: Combobulation) -> None:
    found = Sizing(spec.chip("h100").chip("h200").gpu(8), BIG)
    assert found.fit.word == "does not fit"
    assert found.setting.chip.name == "h100"  # the one with less memory
    assert [way.changes for way in found.ways[:2]] == [("zero",), ("without h100",)]
    for way in found.ways:
        after = Sizing(applied(found, way), BIG)
        assert after.fit.word == "fits"
        assert after.setting == way.setting
        assert after.ways == []
    assert applied(found, found.ways[1]).resources.chips == ("h200",)


def test_a_way_may_change_the_configuration_and_says_so(spec: Combobulation) -> None:
    wide = with_values(spec.chip("h100").gpu(1), {ROWS: 8})
    found = Sizing(wide, WORK)
    assert found.fit.word == "fits"
    other = with_values(wide, {REMAT: "block", ROWS: 4})
    assert (value_of(other, REMAT), value_of(other, ROWS)) == ("block", 4)
    assert value_of(wide, ROWS) == 8  # the recipe itself stays as it was
    assert other.changes[REMAT] == "block"


def test_an_obstacle_comes_with_the_nearest_that_has_none(spec: Combobulation) -> None:
    found = Sizing(spec.chip("h100").gpu(4).shard(tp=4), WORK)
    assert found.obstacle == "6 heads do not divide by 4"
    assert found.fit is None
    assert Sizing(applied(found, found.ways[0]), WORK).obstacle == ""
    assert found.lines()[0] == "cannot be trained so: 6 heads do not divide by 4"


@pytest.mark.parametrize(
    ("asked", "processors", "devices"),
    [
        (lambda c: c, True, 1),
        (lambda c: c.chip("cpu").nodes(2), True, 2),
        (lambda c: c.gpu(0), True, 1),
        (lambda c: c.chip("h100"), False, 1),
        (lambda c: c.chip("h100").gpu(8).nodes(2), False, 8),
        (lambda c: c.gpu(4), False, 4),
    ],
)
def test_a_request_comes_to_so_many_devices(
    spec: Combobulation, asked: Any, processors: bool, devices: int
) -> None:
    wanted = asked(spec).resources
    assert (on_processors(wanted), devices_of(wanted)) == (processors, devices)


def test_the_configure_command_says_what_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["configure", "gpt/train/pretrain", str(tmp_path / "a.yaml"), "architecture.n_layers=2"]
    assert execute([*words, "--chip", "h100", "--gpus", "4", "--tp", "2"]) == 0
    told = capsys.readouterr().out
    assert "of 80 GiB on h100: fits" in told
    assert "  memory    " in told
    assert "parameters " in told


def test_the_job_says_what_trains_nothing() -> None:
    recipe = QuickJob("/nowhere").build("data/tokenize/text", "tokens")
    from theseus.sizing import NoEstimateError, told

    with pytest.raises(NoEstimateError, match="trains no model"):
        workload_of(recipe.spec())
    assert told(recipe.spec().gpu(1)) == ""


def test_a_class_from_a_file_is_not_loaded_to_show_it(tmp_path: Path) -> None:
    saved = {
        "v": 1,
        "name": "x",
        "job": {"class": "no_such_module:Job"},
        "config": {"training": {"tokens": 1}},
        "resources": {"gpus": 1},
    }
    spec = Combobulation.deserialize(saved)
    assert not is_known_here(spec)
    with pytest.raises(Exception, match="not loaded before it is run"):
        workload_of(spec)


@pytest.mark.slow
def test_looking_starts_no_backend() -> None:
    """In a notebook it would take the GPU's memory (JAX takes three quarters of it at once)."""
    code = (
        "from theseus.quick import QuickJob\n"
        "from theseus.sizing import workload_of\n"
        "q = QuickJob('/nowhere').build('gpt/train/pretrain', 'x')\n"
        "print(workload_of(q.spec()).parameter_count)\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # GPT-2 small with a vocabulary of 50,304: its 124,439,808 and 47 more rows of 768
    assert int(done.stdout) == 124_439_808 + 47 * 768
