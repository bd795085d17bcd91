"""What comes back from a host is data: its names cannot lead anywhere, its records run nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch import inventory
from theseus.dispatch.fetching import FetchError, fetch, parse_list
from theseus.dispatch.remote import _found_run
from theseus.dispatch.transport.base import Answer


class Host:
    """A host that lists what it is told to, and gives the same content for every file."""

    name = "box"

    def __init__(self, listed: bytes) -> None:
        self.listed = listed

    def run(self, *_: object, **__: object) -> Answer:
        return Answer(0, self.listed, b"")

    def get(self, source: str, target: Path, **_: object) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"data")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "..", "a\\..\\x"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FetchError, match="outside"):
        fetch(
            Host(f"4 1 {name}\0".encode()), "/r", tmp_path / "to", checkpoints=False, progress=None
        )  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["to"])


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to" / "results").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FetchError, match="link"):
        fetch(Host(b"4 1 results/x\0"), "/r", tmp_path / "to", checkpoints=False, progress=None)  # type: ignore[arg-type]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@given(st.binary())
def test_any_answer_is_read_without_a_fault(answer: bytes) -> None:
    try:
        for one in parse_list(answer):
            assert not one.path.is_absolute()
            assert ".." not in one.path.parts
    except FetchError:
        pass


@given(st.text())
def test_any_record_of_a_host_is_read_without_a_fault(text: str) -> None:
    found = _found_run(
        inventory.Host("box", "plain", inventory.local_cluster()), "/root/runs/p/g", text
    )
    assert found is None or found.record["v"] == 1
