"""One way to every host: its shell over SSH, this machine's, or that of a pod on its volume."""

from __future__ import annotations

import atexit
import threading
from functools import partial

from theseus.dispatch.inventory import Host
from theseus.dispatch.transport import Transport, connect
from theseus.dispatch.transport.shell import Shell

_lock = threading.Lock()
_pods: dict[str, Shell] = {}


def reach(host: Host) -> Transport:
    """Return the transport of a host: the same one for everybody in this process."""
    if host.type != "volcano":
        return connect(host)
    from theseus.dispatch.providers.volcano_pod import open_pod, pod_name

    with _lock:
        key = f"{host.name} {pod_name(host)}"
        if key not in _pods:
            _pods[key] = Shell(host.name, partial(open_pod, host))
        return _pods[key]


def _close() -> None:
    for shell in list(_pods.values()):
        shell.close()


atexit.register(_close)
