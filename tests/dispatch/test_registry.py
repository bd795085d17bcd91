"""The runs that this machine remembers: whole records, found by word, safe for many processes."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dispatch.sending import at_once
from theseus.dispatch.providers.base import Verdict
from theseus.dispatch.registry import (
    Entry,
    Registry,
    RegistryError,
    recalled_hosts,
    remember_hosts,
)


def entry(run: str = "0123abcd", **facts: object) -> Entry:
    given: dict = {"name": "train gpt", "base": f"base of {run}", "submitted": 1.0} | facts
    return Entry(
        id=run, project="p", group="g", job="j", host="box", cluster="lab", kind="plain",
        folder=f"/runs/{run}", **given,
    )  # fmt: skip


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "state" / "theseus")


def test_what_is_put_is_got_by_any_other_process(registry: Registry, tmp_path: Path) -> None:
    kept = entry(handle={"pid": 7, "start": "x"}, status={"progress": {"done": 3}}, starts=5.0)
    registry.put(kept)
    assert Registry(tmp_path / "state" / "theseus").get(kept.id) == kept
    record = json.loads(registry.path(kept.id).read_text())
    assert record["v"] == 1
    assert stat.S_IMODE(registry.folder.stat().st_mode) == 0o700


def test_a_key_of_a_later_theseus_is_passed_over(registry: Registry) -> None:
    registry.put(entry())
    path = registry.path("0123abcd")
    path.write_text(json.dumps({**json.loads(path.read_text()), "new": 1}))
    assert registry.get("0123abcd") == entry()


def test_the_newest_come_first_and_what_cannot_be_read_is_left_out(registry: Registry) -> None:
    registry.put(entry("aaaaaaaa", submitted=1.0))
    registry.put(entry("bbbbbbbb", submitted=2.0))
    (registry.folder / "cccccccc.json").write_text("{torn")
    (registry.folder / "dddddddd.json").write_text('{"v": 99}')
    (registry.folder / "notes.json").write_text("{}")
    assert [one.id for one in registry.entries()] == ["bbbbbbbb", "aaaaaaaa"]


def test_a_run_is_found_by_id_beginning_name_or_as_the_latest(registry: Registry) -> None:
    registry.put(entry("aaaa1111", name="one", submitted=1.0))
    registry.put(entry("aaaa2222", name="two", submitted=2.0))
    for word, found in {
        "aaaa1111": "aaaa1111", "aaaa2": "aaaa2222", "one": "aaaa1111", "latest": "aaaa2222",
    }.items():  # fmt: skip
        assert registry.find(word).id == found
    with pytest.raises(RegistryError, match=r"'aaaa' means 2 runs.*\n  aaaa2222  two"):
        registry.find("aaaa")
    with pytest.raises(RegistryError, match="no run 'onee', did you mean 'one'"):
        registry.find("onee")


def test_without_a_run_the_message_says_so(registry: Registry) -> None:
    with pytest.raises(RegistryError, match="no run was submitted"):
        registry.find("latest")


@pytest.mark.parametrize("word", ["../../etc/passwd", "", "xyz", "0123abcd.json"])
def test_an_id_is_no_path(registry: Registry, word: str) -> None:
    with pytest.raises(RegistryError):
        registry.path(word)


def test_changes_of_two_processes_are_both_kept(registry: Registry) -> None:
    registry.put(entry())

    def changing(name: str, value: int) -> Any:
        return lambda: [registry.change("0123abcd", **{name: value}) for _ in range(20)]

    names = ("seen", "attempt", "nodes", "starts")
    results = at_once(*(changing(name, value) for value, name in enumerate(names, start=1)))
    assert not [one for one in results if isinstance(one, BaseException)]
    found = registry.get("0123abcd")
    assert found == replace(entry(), seen=1, attempt=2, nodes=3, starts=4)


def test_the_newest_of_the_same_thing_is_the_run(registry: Registry) -> None:
    registry.put(entry("aaaaaaaa", base="x", fresh=0))
    registry.put(entry("bbbbbbbb", base="x", fresh=2))
    registry.put(entry("cccccccc", base="y", fresh=5))
    found = registry.of_base("x")
    assert found is not None
    assert found.id == "bbbbbbbb"
    assert registry.of_base("z") is None


def test_what_hosts_said_is_remembered_beside_what_others_said(tmp_path: Path) -> None:
    remember_hosts([Verdict("a", "now", "free", free={"h100": 2}, probed=1.0)], tmp_path)
    remember_hosts([Verdict("b", "unknown", "no answer")], tmp_path)
    seen = recalled_hosts(tmp_path)
    assert seen["a"]["free"] == {"h100": 2}
    assert seen["b"]["reason"] == "no answer"
    (tmp_path / "hosts.json").write_text("torn")
    assert recalled_hosts(tmp_path) == {}
