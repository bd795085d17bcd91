"""Execute notebooks from the first cell to the last, and show how far they are.

    python notebooks/run.py notebooks/quickstart.ipynb

The notebook itself is not changed: its executed copy goes to `build/notebooks/`, which is also the
folder it works in. The kernel is the interpreter that runs this script. At the end the outputs of
the cells tagged `losses` and `sample` are printed again. The exit status is 0 when every cell
ended well, 1 when one failed, 130 when it was stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

TAGS = ("losses", "sample")
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
HEARTBEAT_SECONDS = 10


def main(arguments: list[str] | None = None) -> int:
    """Run the notebooks that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description="Execute notebooks with visible progress.")
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--to", type=Path, default=Path("build/notebooks"), metavar="FOLDER")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="longest time for one cell")
    options = parser.parse_args(arguments)
    for path in options.notebooks:
        if not path.is_file():
            parser.error(f"there is no notebook {path}")
    for path in options.notebooks:
        status = run(path, options.to, options.timeout)
        if status:
            return status
    return 0


def run(path: Path, folder: Path, timeout: int | None = None) -> int:
    """Execute one notebook into `folder`, and return the exit status."""
    notebook = nbformat.read(path, as_version=4)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / path.name
    board = Board(path.name, [cell for cell in notebook.cells if is_code(cell)])
    client = WatchedClient(
        notebook,
        board=board,
        timeout=timeout,
        resources={"metadata": {"path": str(folder.resolve())}},
    )
    failure = ""
    with tempfile.TemporaryDirectory() as home:
        try:
            asyncio.run(client.watch(Path(home)))
        except CellExecutionError:
            failure = traceback_of(notebook)
        except (CellTimeoutError, DeadKernelError) as error:
            failure = str(error).strip()
        except asyncio.CancelledError:
            client.interrupts += 1
        finally:
            nbformat.write(notebook, target)
    board.end_line()
    print_results(notebook)
    if failure:
        board.show_failure(failure)
    print(f"\n{path.name}: {board.summary()}\nexecuted notebook: {target}", flush=True)
    if client.interrupts:
        return 130
    return 1 if failure else 0


class ThisInterpreter(KernelSpecManager):
    """Finds one kernel, the running interpreter, whatever is installed in the user's folders."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the kernel of the running interpreter under any name."""
        return KernelSpec(**get_kernel_dict())


class WatchedClient(NotebookClient):
    """A notebook client that tells a board what it does and what the cells print."""

    def __init__(self, notebook: NotebookNode, *, board: Board, **options: Any) -> None:
        super().__init__(notebook, kernel_name="python3", **options)
        self.board = board
        self.interrupts = 0
        self.on_notebook_start = self._take_interrupts
        self.on_cell_execute = lambda cell, cell_index: board.start(cell)
        self.on_cell_executed = lambda cell, cell_index, execute_reply: board.finish()

    async def watch(self, home: Path) -> None:
        """Execute the notebook, with a sign of life while a cell is silent.

        `home` is an empty folder for the kernel's own files and for its sockets: no port is opened.
        """
        manager = self.create_kernel_manager()
        manager.kernel_spec_manager = ThisInterpreter()
        manager.transport, manager.ip = "ipc", str(home / "kernel")
        ticking = asyncio.create_task(self.board.tick())
        try:
            await self.async_execute(env=kernel_environment(home))
        finally:
            ticking.cancel()

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """Pass the message on, and show what it says."""
        content = msg["content"]
        if msg["msg_type"] == "stream":
            self.board.say(content["text"])
        elif msg["msg_type"] in {"display_data", "update_display_data"}:
            self.board.say(content["data"].get("text/plain", ""))
        return super().process_message(msg, cell, cell_index)

    def _take_interrupts(self, **_: Any) -> None:
        """Give a Ctrl-C to the running cell, which then ends in order; a second one ends all."""
        loop = asyncio.get_running_loop()
        everything = asyncio.current_task()
        manager: Any = self.km

        def interrupt() -> None:
            self.interrupts += 1
            if self.interrupts == 1:
                self._interrupting = asyncio.ensure_future(manager.interrupt_kernel())
            elif everything is not None:
                everything.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)


class Board:
    """The progress of one notebook in the terminal: one line for each cell.

    On a terminal the line of the running cell is rewritten in place; elsewhere (a log of CI) what
    the cell says is added every few seconds.
    """

    def __init__(self, name: str, cells: list[NotebookNode]) -> None:
        self.tty = sys.stdout.isatty()
        self.count = len(cells)
        self.number = 0
        self.title = ""
        self.said = ""
        self.shown = ""
        self.begun = self.cell_begun = self.last_shown = time.monotonic()
        print(f"{name}: {self.count} cells", flush=True)

    def start(self, cell: NotebookNode) -> None:
        """Begin the line of a cell."""
        if not is_code(cell):
            return
        self.number += 1
        self.title, self.said, self.shown = title(cell.source), "", ""
        self.cell_begun = self.last_shown = time.monotonic()
        self._show()

    def say(self, text: str) -> None:
        """Note the last line of what the running cell printed."""
        lines = [line.strip() for line in re.split(r"[\r\n]+", ANSI.sub("", text))]
        readable = [line for line in lines if line and not is_bare_repr(line)]
        if readable:
            self.said = readable[-1]
            self._show()

    def finish(self) -> None:
        """End the line of the running cell."""
        if not self.title:
            return
        seconds = duration(time.monotonic() - self.cell_begun)
        line = f"{self._head()}  {seconds}"
        print(f"\r\x1b[K{line}" if self.tty else line, flush=True)
        self.title = ""

    async def tick(self) -> None:
        """Keep the elapsed time of the running cell moving."""
        while True:
            await asyncio.sleep(1)
            self._show()

    def end_line(self) -> None:
        """Leave the line of a cell that did not end."""
        if self.title and self.tty:
            print(flush=True)
        self.title = ""

    def show_failure(self, text: str) -> None:
        """Print which cell failed and why."""
        text = text if self.tty else ANSI.sub("", text)
        print(f"\ncell {self.number} of {self.count} failed:\n{text}", flush=True)

    def summary(self) -> str:
        """Return how far the notebook came and how long that took."""
        seconds = duration(time.monotonic() - self.begun)
        return f"{self.number} of {self.count} cells in {seconds}"

    def _head(self) -> str:
        return f"[{self.number:2}/{self.count}] {self.title:<50}"

    def _show(self) -> None:
        if not self.title:
            return
        now = time.monotonic()
        seconds = duration(now - self.cell_begun)
        if self.tty:
            width = shutil.get_terminal_size().columns - 1
            line = f"{self._head()}  {seconds}  {self.said}"[:width]
            print(f"\r\x1b[K{line}", end="", flush=True)
        elif now - self.last_shown >= HEARTBEAT_SECONDS:
            self.last_shown = now
            news = self.said if self.said != self.shown else ""
            self.shown = self.said
            print(f"        {seconds:>12}  {news or 'running'}", flush=True)


def print_results(notebook: NotebookNode) -> None:
    """Print the outputs of the cells tagged with one of `TAGS`."""
    for tag in TAGS:
        for cell in notebook.cells:
            text = output_text(cell) if tag in cell.metadata.get("tags", []) else ""
            if text:
                print(f"\n{tag}\n{text}", flush=True)


def traceback_of(notebook: NotebookNode) -> str:
    """Return the traceback of the cell that failed, as the notebook shows it."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    errors = [output for output in outputs if output.output_type == "error"]
    return "\n".join(errors[-1].traceback)


def output_text(cell: NotebookNode) -> str:
    """Return what the cell printed or displayed, as plain text without its pictures."""
    return "\n".join(text for text in _texts(cell) if text.strip())


def _texts(cell: NotebookNode) -> Iterator[str]:
    for output in cell.get("outputs", []):
        text = output.get("text", "") or output.get("data", {}).get("text/plain", "")
        text = ANSI.sub("", text).rstrip()
        # A line that was rewritten in place counts as it stood at the end.
        lines = [line.split("\r")[-1] for line in text.split("\n")]
        yield "\n".join(line for line in lines if not is_bare_repr(line))


def kernel_environment(home: Path) -> dict[str, str]:
    """Return the environment of the kernel: no start-up files of the user, no live front end."""
    environment = {**os.environ, "IPYTHONDIR": str(home), "PYTHONUNBUFFERED": "1"}
    environment.pop("JPY_SESSION_NAME", None)
    return environment


def is_code(cell: NotebookNode) -> bool:
    """Return whether the cell is one that is executed."""
    return cell.cell_type == "code" and bool(cell.source.strip())


def is_bare_repr(line: str) -> bool:
    """Return whether a line is only the name of something drawn, like `<Figure size 6x4>`."""
    return line.startswith("<") and line.endswith(">")


def title(source: str) -> str:
    """Return the first line of a cell that does something, shortened."""
    lines = [line.strip() for line in source.splitlines()]
    code = [line for line in lines if line and not line.startswith(("#", "import ", "from "))]
    first = (code or lines)[0]
    return first if len(first) <= 50 else first[:49] + "…"


def duration(seconds: float) -> str:
    """Return a time as a person would say it: `3.1 s`, `2 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


if __name__ == "__main__":
    sys.exit(main())
