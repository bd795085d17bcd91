"""A room of the house imports from the rooms above it, never from those below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# From top to bottom; what stands in one line may know each other. A module beside the rooms that is
# not named here lives on the floor of the lowest room that it imports.
FLOORS = [
    {"errors", "config"},
    {"registry"},
    {"hardware"},
    {"job"},
    {"data"},
    {"model"},
    {"training"},
    {"evaluation"},
    {"runs"},
    {"quick", "combobulation"},
    {"dispatch"},
    {"cli"},
    {"notebook"},
    {"lab"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# The doors of the house: what a user imports or starts.
DOORS = {"__init__", "__main__"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "theseus" and len(parts) > 1:
                yield node.lineno, parts[1]


def floor_of(module: str, package: Path) -> int:
    if module not in FLOOR:
        path = package / f"{module}.py"
        others = {other for _, other in imports(path)} if path.exists() else set()
        FLOOR[module] = 0  # while it is being looked at, and when it imports nothing of ours
        FLOOR[module] = max((floor_of(other, package) for other in others), default=0)
    return FLOOR[module]


def test_no_room_imports_from_below(repository: Path) -> None:
    package = repository / "theseus"
    wrong = []
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).with_suffix("").parts[0]
        if room in DOORS:
            continue
        for line, other in imports(path):
            if floor_of(other, package) > floor_of(room, package):
                wrong.append(f"{path.relative_to(repository)}:{line} imports theseus.{other}")
    assert wrong == []
