"""The threads of the extension: daemons, so that a server that is told to stop waits for no host."""

from __future__ import annotations

import threading
from collections.abc import Callable

NAME = "theseus lab"  # with which their names begin


def start(work: Callable[..., object], *arguments: object, name: str) -> threading.Thread:
    """Start a thread for some work."""
    thread = threading.Thread(target=work, args=arguments, name=f"{NAME} {name}", daemon=True)
    thread.start()
    return thread
