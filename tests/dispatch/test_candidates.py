"""Which hosts could take a request, told without asking anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from theseus.dispatch.candidates import candidates
from theseus.dispatch.inventory import Inventory, load_inventory
from theseus.hardware.resources import Resources

FILE = """
clusters:
  lab: {root: /home/ada/theseus, work: /home/ada/work}
  campus: {root: /scratch/ada, work: /scratch/ada/work}
hosts:
  box: {ssh: box.example.org, cluster: lab, type: plain, chips: {h100: 8}}
  old: {ssh: old.example.org, cluster: lab, type: plain, chips: {rtx3090: 2}}
  queue: {ssh: login.example.org, cluster: campus, type: slurm}
"""
SEEN = {"queue": {"total": {"h100": 64}, "free": {"h100": 3}, "probed": 100.0}}


@pytest.fixture
def known(tmp_path: Path) -> Inventory:
    path = tmp_path / "hosts.yaml"
    path.write_text(FILE)
    return load_inventory(path)


def test_chips_of_the_inventory_and_of_the_last_answer_count(known: Inventory) -> None:
    found = {one.name: one for one in candidates(known, Resources(chips=("h100",), gpus=4), SEEN)}
    assert {name: one.could for name, one in found.items()} == {
        "box": True,
        "old": False,
        "queue": True,
    }
    assert found["old"].reason == "has no h100, but rtx3090"
    assert (found["queue"].free, found["queue"].probed) == ({"h100": 3}, 100.0)
    assert (found["box"].free, found["box"].probed) == (None, None)


@pytest.mark.parametrize(
    ("wanted", "reasons"),
    [
        (
            Resources(chips=("h100",), gpus=16, nodes=2),
            {
                "box": "is one machine, 2 are asked for",
                "old": "is one machine, 2 are asked for",
                "queue": "names no chips and was not asked yet",
            },
        ),
        (
            Resources(gpus=4),
            {
                "box": "",
                "old": "has 2 of one kind, 4 are asked for",
                "queue": "names no chips and was not asked yet",
            },
        ),
        (Resources(gpus=0), {"box": "", "old": "", "queue": ""}),
        (
            Resources(gpus=1, clusters=("lab",)),
            {"box": "", "old": "", "queue": "is in cluster 'campus', not in lab"},
        ),
    ],
)
def test_the_reason_is_told(known: Inventory, wanted: Resources, reasons: dict[str, str]) -> None:
    assert {one.name: one.reason for one in candidates(known, wanted, {})} == reasons


def test_a_damaged_memory_of_the_last_answer_is_no_answer(known: Inventory) -> None:
    found = candidates(
        known, Resources(chips=("h100",), gpus=4), {"box": {"total": "x", "free": 3}}
    )
    assert (found[0].could, found[0].free) == (True, None)
