"""Submits a run again, as a process of its own: `python -m theseus.lab.again RUN`.

The job's class is loaded for that, and JAX with it. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys

from theseus.errors import UserError


def main(run: str) -> int:
    """Submit it, and say what became of it."""
    from theseus.dispatch.dispatched import DispatchedRun
    from theseus.dispatch.showing import SentRun

    try:
        entry = SentRun(DispatchedRun.find(run)).resubmit().entry
        told: dict[str, object] = {"id": entry.id, "host": entry.host, "attempt": entry.attempt}
    except UserError as error:
        told = {"error": str(error)}
    sys.stdout.write(f"\n{json.dumps(told)}\n")
    return "error" in told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
