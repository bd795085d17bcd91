"""Print what the notebook costs: a form of 300 keys, and what one edit of it sends.

    python -m benchmarks.notebook

Nothing here decides whether a test passes; run it on a quiet machine.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import tempfile
import time
from typing import Any

KEYS = 300
EDITS = 50


def main() -> None:
    """Print the figures, a line each."""
    os.environ["THESEUS_WIDGETS"] = "1"
    import comm

    from theseus.config import field
    from theseus.job import Job
    from theseus.quick import init

    sizes: list[int] = []

    class Counted(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
            if data and msg_type == "comm_open":
                opened.append(data["state"].get("_anywidget_id", data["state"]["_model_name"]))
            sizes.append(len(json.dumps(data or {}, ensure_ascii=False).encode()))

    opened: list[str] = []
    comm.create_comm = Counted

    declared = [
        (f"k{i}", int, field(f"group{i // 20}/k{i}", default=i, help="one of many keys", ge=0))
        for i in range(KEYS)
    ]
    settings = dataclasses.make_dataclass("Settings", declared)

    class Many(Job):
        @classmethod
        def configs(cls) -> tuple[type, ...]:
            return (settings,)

        def run(self, recorder: Any) -> None:
            """Do nothing."""

    q = init(tempfile.mkdtemp()).build(Many, "many keys")
    from theseus.notebook.form import bundle_of

    began = time.perf_counter()
    bundle_of(q)
    took = time.perf_counter() - began
    print(
        f"form of {KEYS} keys, kernel side: {took:.3f} s, {len(opened)} comms, {sum(sizes):,} bytes"
    )
    form = _form_of(q)
    costs, times = [], []
    for number in range(EDITS):
        sizes.clear()
        began = time.perf_counter()
        form.receive(
            {
                "type": "set",
                "id": number,
                "generation": form._generation,
                "key": "group3.k70",
                "text": str(number),
            }
        )
        times.append(time.perf_counter() - began)
        costs.append(sum(sizes))
    print(f"an edit: {max(costs):,} bytes, {statistics.median(times) * 1000:.1f} ms")
    print(f"comms after {EDITS} edits: {len(opened)}")


def _form_of(q: Any) -> Any:
    from theseus.notebook import form

    return form._own[q]


if __name__ == "__main__":
    main()
