"""Words → calls: the command line."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run the command `theseus` and end the process with its exit status."""
    import gc
    import os
    import sys

    # Nearly all that is made while modules are imported stays: looking through it again and again
    # for garbage takes a tenth of that time.
    gc.set_threshold(50_000, 20, 100)
    from theseus.cli.call import execute

    # A project's own modules are found from its folder, as with `python -m theseus`.
    if not {"", os.getcwd()} & set(sys.path):  # noqa: PTH109 - the same text as in sys.path
        sys.path.append(os.getcwd())  # noqa: PTH109
    sys.exit(execute(sys.argv[1:]))
