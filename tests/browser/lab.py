"""A real JupyterLab in a real browser: open a notebook, run cells, read what they show.

    book = lab.open(["print(1 + 1)"])
    book.run_all()
    assert book.text(0) == "2"

Each notebook has a page, a folder and a kernel of its own; the server is shared.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Locator, Page, Playwright, expect

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PATIENCE = 60  # seconds; a loaded machine starts a kernel slowly
_TOKEN = "token"
_BASE = "/user/x"  # as behind a hub

# What a person would have set up once, so that nothing pops up over the notebook.
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Cells outside of the window stay in the page, where a test can find them.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "docmanager-extension/plugin": {"autosave": False},
}
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
# `rfc3987_syntax` compiles a grammar while it is imported, for seconds; the server needs it for
# nothing and does without it where it is not installed.
_START = (
    "import sys; sys.modules['rfc3987_syntax'] = None; from jupyterlab.labapp import main; main()"
)


@dataclass
class Notebook:
    """An open notebook."""

    page: Page
    path: Path
    console: list[str] = field(default_factory=list)

    def cell(self, index: int) -> Locator:
        """Return a code cell, counted from 0; -1 is the last."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def output(self, index: int) -> Locator:
        """Return where a cell's outputs are."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def text(self, index: int) -> str:
        """Return what a reader sees below a cell."""
        parts = self.output(index).locator(".jp-OutputArea-output").all_inner_texts()
        return "\n".join(parts).strip()

    def run(self, index: int) -> None:
        """Run one cell as a reader does, and wait until it has ended."""
        before = self._count(index)
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self._ended(index, before)

    def run_all(self) -> None:
        """Run every cell and wait until the last has ended."""
        count = self.page.locator(".jp-Notebook .jp-CodeCell").count()
        before = self._count(count - 1)
        self.cell(0).locator(".jp-InputPrompt").click()  # commands go to the notebook in focus
        self.command("notebook:run-all-cells")
        self._ended(count - 1, before)

    def execute(self, source: str) -> str:
        """Add a cell below the last, run it, and return what it shows."""
        index = self.page.locator(".jp-Notebook .jp-CodeCell").count()
        self.cell(index - 1).locator(".jp-InputPrompt").click()
        self.command("notebook:insert-cell-below")
        expect(self.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(index + 1)
        self.write(index, source)
        self.run(index)
        return self.text(index)

    def write(self, index: int, source: str) -> None:
        """Replace what is written in a cell."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)

    def shows(self, index: int, text: str | re.Pattern[str]) -> None:
        """Wait until a cell shows a text somewhere below it."""
        expect(self.output(index)).to_contain_text(text)

    def dark(self, dark: bool = True) -> None:
        """Switch between the dark and the light theme."""
        theme = f"JupyterLab {'Dark' if dark else 'Light'}"
        self.command("apputils:change-theme", theme=theme)
        light = "false" if dark else "true"
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)

    def wide(self, width: int, height: int = 1000) -> None:
        """Give the window another size; at 600 pixels the side bars are put away first."""
        self.page.set_viewport_size({"width": width, "height": height})

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands and wait until it is done."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
            [name, arguments],
        )

    def restart_kernel(self) -> None:
        """Restart the kernel, as the menu does after its question."""
        self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
        )
        self.idle()

    def save(self) -> dict[str, Any]:
        """Save the notebook and return what is in the file."""
        self.command("docmanager:save")
        saved: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return saved

    def reload(self) -> None:
        """Load the page again; the kernel goes on."""
        self.page.reload()
        self.idle()

    def screenshot(self, path: str | Path, what: Locator | None = None) -> None:
        """Take a picture of the window or of a part of it."""
        (what or self.page).screenshot(path=path)

    def idle(self) -> None:
        """Wait until the notebook is open and its kernel is idle."""
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        self.page.wait_for_function(
            """() => {
              const app = window.jupyterapp, context = app?.shell.currentWidget?.sessionContext;
              return context?.isReady && context.session?.kernel?.status === 'idle'
                && app.commands.isEnabled('notebook:run-all-cells');
            }"""
        )

    def _count(self, index: int) -> str:
        return self.cell(index).locator(".jp-InputPrompt").inner_text().strip()

    def _ended(self, index: int, before: str) -> None:
        prompt = self.cell(index).locator(".jp-InputPrompt")
        ended = re.compile(r"^\s*\[\d+\]:\s*$")
        expect(prompt).not_to_have_text(before)
        expect(prompt).to_have_text(ended)


@dataclass
class Lab:
    """A running server, and the browser that looks at it."""

    browser: Browser
    address: str
    folder: Path

    def open(self, cells: Sequence[str], *, width: int = 1400, name: str = "") -> Notebook:
        """Open a notebook of these cells in a page of its own, with a kernel that is ready."""
        folder = self.folder / uuid.uuid4().hex[:8]
        folder.mkdir()
        path = folder / f"{name or 'notebook'}.ipynb"
        made = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(made, path)
        return self.show(path, width=width)

    def show(self, path: Path, *, width: int = 1400) -> Notebook:
        """Open a notebook that is there, in a workspace of its own."""
        page = self.browser.new_page(viewport={"width": width, "height": 1000})
        page.set_default_timeout(PATIENCE * 1000)
        found = Notebook(page, path)
        listen(page, found.console)
        where = path.relative_to(self.folder).as_posix()
        space = path.parent.name
        page.goto(f"{self.address}/doc/workspaces/{space}/tree/{where}?token={_TOKEN}&reset")
        found.idle()
        return found

    def whole(self, console: list[str], *, width: int = 1400) -> Page:
        """Open the whole of JupyterLab, with its side bars, in a workspace of its own."""
        page = self.browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(PATIENCE * 1000)
        listen(page, console)
        space = uuid.uuid4().hex[:8]
        page.goto(f"{self.address}/lab/workspaces/{space}?token={_TOKEN}&reset")
        page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        return page

    def theseus(self, *words: str) -> str:
        """Run a command as this user does in a terminal, in the server's folder."""
        done = subprocess.run(
            [sys.executable, "-m", "theseus", *words],
            cwd=self.folder,
            env=environment(self.folder),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def listen(page: Page, console: list[str]) -> None:
    """Collect what goes wrong in a page."""
    page.on("console", lambda said: console.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: console.append(str(error)))


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose inventory and registry lie in a folder."""
    own = {
        "THESEUS_CONFIG": str(folder / ".hosts.yaml"),
        "XDG_STATE_HOME": str(folder / ".state"),
        "PYTHONPATH": str(ROOT),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    return {**os.environ, **own}


@contextmanager
def server(folder: Path, *more: str, extension: bool = True) -> Iterator[str]:
    """Start JupyterLab on a folder and give its address.

    Parameters
    ----------
    more
        Further options of the server.
    extension
        Whether our extension is in the pages, as it is built here.
    """
    extensions = folder / ".labextensions"
    extensions.mkdir(exist_ok=True)
    if extension:
        built = ROOT / "theseus" / "lab" / "labextension"
        (extensions / "theseus-jupyter").symlink_to(built)
    settings = folder / ".settings"
    for name, values in _SETTINGS.items():
        file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    port = _free_port()
    command = [
        *(sys.executable, "-c", _START, "--no-browser", f"--ServerApp.port={port}"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0", "--allow-root"),
        *(f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={_TOKEN}"),
        f"--ServerApp.base_url={_BASE}",
        *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
        f"--LabApp.extra_labextensions_path={extensions}",
        # What is installed is another build of the same; widgets are wanted in any case.
        *([] if extension else [f"--LabApp.labextensions_path={_without_ours(folder)}"]),
        f"--LabApp.workspaces_dir={folder / '.workspaces'}",
        f"--LabApp.user_settings_dir={settings}",
        *more,
    ]
    log = folder / ".server.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=file, stderr=subprocess.STDOUT
        )
    try:
        address = f"http://127.0.0.1:{port}{_BASE}"
        _wait_for(f"{address}/api", process, log)
        yield address
    finally:
        process.terminate()  # its kernels end with it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _without_ours(folder: Path) -> Path:
    """Return a folder with the extensions that are installed here, except for ours."""
    found = folder / ".others"
    found.mkdir()
    for path in (Path(sys.prefix) / "share" / "jupyter" / "labextensions").iterdir():
        if path.name != "theseus-jupyter":
            (found / path.name).symlink_to(path)
    return found


def launch(playwright: Playwright) -> Browser:
    """Start Debian's Chromium."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except urllib.error.HTTPError:
            return  # it wants the token: it is there
        except OSError:
            time.sleep(0.2)
    msg = f"JupyterLab did not start:\n{log.read_text()}"
    raise RuntimeError(msg)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
