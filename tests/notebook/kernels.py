"""A real kernel, driven message by message: what each cell caused, and under which cell it came.

The kernel is the ipykernel of the running interpreter, so that the same tests hold for every version
that `tests/kernels.py` installs.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 60.0


class _ThisInterpreter(KernelSpecManager):
    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=words, language="python")


@dataclass
class Ran:
    """What came under one cell: messages of its own request."""

    status: str = ""
    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [one["content"] for one in self.messages if one["msg_type"] == kind]

    @property
    def out(self) -> str:
        """What was printed."""
        return "".join(one["text"] for one in self.all("stream"))

    @property
    def text(self) -> str:
        """All that a reader of plain text sees: printed, displayed, and the error."""
        shown = [
            *self.all("display_data"),
            *self.all("update_display_data"),
            *self.all("execute_result"),
        ]
        parts = [str(one["data"].get("text/plain", "")) for one in shown]
        parts += ["\n".join(one["traceback"]) for one in self.all("error")]
        return self.out + "\n".join(parts)


class Kernel:
    """One kernel and its client, working in a folder."""

    def __init__(self, folder: Path, name: str = "k", **environment: str) -> None:
        self.manager = KernelManager(kernel_spec_manager=_ThisInterpreter(), transport="ipc")
        self.manager.ip = str(folder / name)
        env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        self.manager.start_kernel(cwd=str(folder), env=env | environment)
        self.ran: dict[str, Ran] = {}
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    def start(self, code: str) -> str:
        """Send a cell and do not wait; return what `finish` takes."""
        request = self.client.execute(code, allow_stdin=False)
        self.ran[request] = Ran()
        return request

    def finish(self, request: str) -> Ran:
        """Read messages until a cell has ended."""
        end = time.monotonic() + TIMEOUT
        while True:
            message = self._next(max(end - time.monotonic(), 0.01))
            if (
                message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
                and message["parent_header"].get("msg_id") == request
            ):
                break
        ran = self.ran[request]
        ran.reply = self._reply(request)
        ran.status = ran.reply["status"]
        return ran

    def run(self, code: str) -> Ran:
        """Run a cell to its end."""
        return self.finish(self.start(code))

    def until(self, request: str, word: str) -> Ran:
        """Read messages until a word was printed by a cell."""
        end = time.monotonic() + TIMEOUT
        while word not in self.ran[request].text:
            self._next(max(end - time.monotonic(), 0.01))
        return self.ran[request]

    def drain(self, seconds: float) -> None:
        """Read what comes by itself."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._next(left)
            except queue.Empty:
                return

    def tell(self, request: str, message: dict[str, Any]) -> None:
        """Send a message to the widgets that a cell has opened, as a page does that shows them."""
        for opened in self.ran[request].all("comm_open"):
            content = {
                "comm_id": opened["comm_id"],
                "data": {"method": "custom", "content": message},
            }
            self.client.shell_channel.send(self.client.session.msg("comm_msg", content))

    def heard(self, word: str) -> bool:
        """Read messages until a widget has said a word to its views, for a while at most."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            said = [one for ran in list(self.ran.values()) for one in ran.all("comm_msg")]
            if word in json.dumps(said):
                return True
            self.drain(0.2)
        return False

    def _next(self, timeout: float) -> dict[str, Any]:
        message: dict[str, Any] = self.client.get_iopub_msg(timeout=timeout)
        request = message["parent_header"].get("msg_id", "")
        self.ran.setdefault(request, Ran()).messages.append(message)
        return message

    def complete(self, code: str) -> dict[str, Any]:
        """Ask what can stand at the `|`."""
        cursor = code.index("|")
        request = self.client.complete(code.replace("|", "", 1), cursor)
        return self._reply(request)

    def inspect(self, code: str) -> dict[str, Any]:
        return self._reply(self.client.inspect(code, len(code)))

    def _reply(self, request: str) -> dict[str, Any]:
        while True:
            message = self.client.get_shell_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == request:
                content: dict[str, Any] = message["content"]
                return content

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
