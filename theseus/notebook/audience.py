"""Who looks: whether a front end shows widgets, or text is all that can be seen."""

from __future__ import annotations

import os
import sys

WIDGETS = "THESEUS_WIDGETS"  # in the environment: `0` or `1` where the guess is wrong

# What front ends that show widgets leave in the environment of their kernels.
_FRONT_ENDS = ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD")


def live() -> bool:
    """Tell whether somebody can see widgets: nbclient, papermill and terminals show text."""
    if asked := os.environ.get(WIDGETS):
        return asked != "0"
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive else None
    if getattr(shell, "kernel", None) is None:
        return False
    return "google.colab" in sys.modules or any(name in os.environ for name in _FRONT_ENDS)
