"""The hardware widget without a browser: what it sends, takes and refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from theseus.combobulation import Combobulation
from theseus.notebook import hardware_state as state
from theseus.notebook.hardware import CombobulationWidget
from theseus.quick import QuickJob, init

FILE = """
clusters: {lab: {root: /home/ada/theseus, work: /home/ada/work}}
hosts: {box: {ssh: box.invalid, cluster: lab, type: plain, chips: {h100: 8}}}
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuickJob]:
    monkeypatch.setenv("THESEUS_WIDGETS", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    q = init(tmp_path).build("gpt/train/pretrain", "train gpt")
    q.config.architecture.n_embd = 96
    q.config.architecture.n_head = 6
    q.config.architecture.n_layers = 2
    q.config.training.batch_size = 48
    yield q
    q.close()


@pytest.fixture
def shown(recipe: QuickJob, tmp_path: Path) -> CombobulationWidget:
    path = tmp_path / "hosts.yaml"
    path.write_text(FILE)
    widget = CombobulationWidget(recipe.spec().chip("h100").gpu(4), recipe=recipe, inventory=path)
    widget.told = []
    widget.tell = widget.told.append  # type: ignore[method-assign] # the front end's side
    return settled(widget)


def settled(widget: CombobulationWidget) -> CombobulationWidget:
    until(lambda: widget.memory["status"] != "estimating…")
    return widget


def until(there: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def send(widget: CombobulationWidget, **message: Any) -> None:
    widget._on_message(widget, message, [])


def test_it_opens_at_once_and_the_estimate_comes(shown: CombobulationWidget) -> None:
    assert shown.memory["word"] == "fits"
    assert shown.memory["mesh"] == (4, 1)
    assert shown.memory["total"] == sum(count for _, count, _ in shown.memory["parts"])
    assert shown.memory["on"]["h100"] == "fits"
    assert shown.hosts["hosts"][0]["could"] is True
    assert shown.hosts["hosts"][0]["probed"] is None  # nobody was asked
    assert "of 80 GiB on h100: fits" in shown.text()


def test_a_choice_gives_another_value_and_tells_who_watches(shown: CombobulationWidget) -> None:
    before, seen = shown.value, []
    shown.observe(lambda change: seen.append(change["new"]), "value")
    send(shown, type="set", name="tp", value=2)
    send(shown, type="set", name="fsdp", value=True)
    assert shown.value == before.shard(tp=2, fsdp=True)
    assert seen == [before.shard(tp=2), before.shard(tp=2, fsdp=True)]
    assert shown.memory["mesh"] == (2, 2)
    assert before.resources.sharding.tp == 1


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("tp", 4, "6 heads do not divide by 4"),
        ("gpus", 5, "a batch of 48 rows does not divide by 5"),
        ("gpus", "many", "gpus"),
        ("memory", "much", "a size such as '64G'"),
        ("chips", ["h1000"], "no chip is called 'h1000'"),
        ("rows", 5, "micro-batches of 5"),
        ("colour", 1, "no 'colour'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    shown: CombobulationWidget, name: str, value: Any, why: str
) -> None:
    before = shown.value
    send(shown, type="set", name=name, value=value)
    assert [one["type"] for one in shown.told] == ["problem"]
    assert why in shown.told[0]["message"]
    assert shown.value == before


def test_the_configuration_is_followed_when_a_cell_has_ended(
    shown: CombobulationWidget, recipe: QuickJob
) -> None:
    before = shown.memory["total"]
    recipe.config.architecture.n_embd = 192
    recipe.config.architecture.n_head = 3
    shown.refresh()
    assert shown.memory["status"] == "estimating…"  # and the cell does not wait
    settled(shown)
    assert shown.memory["total"] > before
    assert shown.value.config.architecture.n_embd == 192
    assert shown.value.resources.gpus == 4
    assert {value: why for value, why, _ in shown.offered["tp"]}[2] == "3 heads do not divide by 2"


def test_what_is_computed_again_is_set_in_the_recipe(
    shown: CombobulationWidget, recipe: QuickJob
) -> None:
    def activations() -> int:
        return {name: count for name, count, _ in shown.memory["parts"]}["activations"]

    before = activations()
    send(shown, type="set", name="remat", value="block")
    between = activations()
    send(shown, type="set", name="rows", value=2)
    assert recipe.config.training.remat == "block"
    assert recipe.config.training.per_device_batch_size == 2
    assert activations() < between < before
    assert shown.memory["status"] == ""  # arithmetic alone: nothing was estimated anew


def test_one_click_makes_it_fit(shown: CombobulationWidget, recipe: QuickJob) -> None:
    recipe.config.architecture.n_embd = 3072
    recipe.config.architecture.n_layers = 24
    shown.refresh()
    settled(shown)
    send(shown, type="set", name="chips", value=["a100-sxm4-40gb"])
    assert shown.memory["word"] == "does not fit"
    assert len(shown.ways) == 3
    offered = dict(shown.ways[0])
    send(shown, type="way", **offered)
    assert shown.memory["word"] == "fits"
    assert shown.told == []
    send(shown, type="way", **offered)  # a second click on what is gone
    assert "look again" in shown.told[0]["message"]


def test_the_code_gives_the_same(
    shown: CombobulationWidget, recipe: QuickJob, tmp_path: Path
) -> None:
    for name, value in (
        ("chips", ["h100", "h200"]), ("gpus", 8), ("nodes", 2), ("cpus", 4), ("memory", "64G"),
        ("clusters", ["lab"]), ("tp", 2), ("zero", True), ("remat", "dots"),
    ):  # fmt: skip
        send(shown, type="set", name=name, value=value)
    assert shown.told == []
    names: dict[str, Any] = {"q": QuickJob(tmp_path).build("gpt/train/pretrain", "train gpt")}
    for key in ("n_embd", "n_head", "n_layers"):
        names["q"].config.architecture[key] = recipe.config.architecture[key]
    names["q"].config.training.batch_size = 48
    exec(shown.code["python"], names)
    assert names["c"] == shown.value
    assert shown.code["options"] == (
        "--chip h100 --chip h200 --gpus 8 --cpus 4 --memory 64G --nodes 2 --cluster lab --tp 2 "
        "--zero training.remat=dots"
    )
    assert shown.code["yaml"] == ""  # until somebody looks
    send(shown, type="yaml", open=True)
    assert Combobulation.deserialize(OmegaConf.create(shown.code["yaml"])) == shown.value


def test_saving_writes_the_file_and_replaces_another_only_when_told(
    shown: CombobulationWidget, tmp_path: Path
) -> None:
    path = tmp_path / "out.yaml"
    send(shown, type="save", path=str(path))
    assert Combobulation.load(path) == shown.value
    send(shown, type="set", name="gpus", value=8)
    send(shown, type="save", path=str(path))
    assert Combobulation.load(path) != shown.value
    send(shown, type="save", path=str(path), force=True)
    assert Combobulation.load(path) == shown.value
    assert [one["type"] for one in shown.told] == ["saved", "exists", "saved"]


def test_hosts_are_asked_on_a_thread_when_told_to(
    shown: CombobulationWidget, tmp_path: Path
) -> None:
    (tmp_path / "hosts.yaml").write_text(
        f"clusters: {{here: {{root: {tmp_path}}}}}\nhosts: {{me: {{cluster: here, type: local}}}}\n"
    )
    send(shown, type="probe")
    assert shown.hosts["status"] == "asking…"
    until(lambda: shown.hosts["status"] != "asking…")
    assert shown.hosts["hosts"][0]["probed"] > 0


def test_a_value_given_in_code_is_shown(shown: CombobulationWidget) -> None:
    shown.value = shown.value.gpu(2)
    assert shown.asked["gpus"] == 2
    assert shown.memory["mesh"] == (2, 1)


def test_nothing_is_estimated_where_nobody_looks(
    recipe: QuickJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THESEUS_WIDGETS", "0")
    recipe.config.architecture.n_embd = 36
    widget = CombobulationWidget(recipe.spec().gpu(1))
    assert str(widget.value) in widget.text()
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}


def test_what_a_user_wrote_is_escaped(recipe: QuickJob) -> None:
    spec = recipe.spec().named("<script>alert(1)</script>")
    assert "<script>" not in CombobulationWidget(spec).html()


def test_an_edit_sends_little(shown: CombobulationWidget) -> None:
    import json

    sent: list[int] = []
    original = shown.send_state
    shown.send_state = lambda key=None: (  # type: ignore[method-assign]
        sent.append(len(json.dumps(shown.get_state(key=key)))), original(key)
    )[1]  # fmt: skip
    send(shown, type="set", name="zero", value=True)
    assert 0 < sum(sent) < 5000


def test_a_quote_in_a_name_stays_python() -> None:
    assert state._quoted('a "b"') == "'a \"b\"'"
    assert state._quoted("h100") == '"h100"'
