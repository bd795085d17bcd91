"""What a worker is told: `dispatch.json` in the run's folder, readable by its owner alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from theseus.runs import files

FILE = "dispatch.json"


@dataclass(frozen=True)
class Order:
    """What to run, and in what surroundings.

    Attributes
    ----------
    run
        The run's id.
    provider
        What starts the worker: the type of its host.
    root
        The folder of data and runs there.
    recipe
        A serialized Combobulation; code in it is loaded by the worker, and nowhere before.
    env
        The environment, secrets included.
    chip, chips, nodes
        What was promised: how many of which chip on each node, on how many nodes. No chip is a run
        on processors.
    """

    run: str
    provider: str
    root: str
    recipe: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)
    chip: str | None = None
    chips: int = 0
    nodes: int = 1

    def text(self) -> str:
        """Return it as the text of the file."""
        return json.dumps({"v": files.VERSION, **asdict(self)}, ensure_ascii=True) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Order:
        """Return the order in a run's folder."""
        record = files.read_json(folder / FILE)
        known = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        return cls(**known)
