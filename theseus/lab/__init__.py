"""The part of Theseus that lives in the Jupyter server: runs, hosts and cells for the browser.

Jupyter imports this when it starts, so nothing is imported here: what answers a request is loaded
with the first one.
"""

from __future__ import annotations

from typing import Any

from theseus import __version__

__all__ = ["__version__"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from theseus.lab.extension import TheseusLab

    return [{"module": "theseus.lab", "app": TheseusLab}]
