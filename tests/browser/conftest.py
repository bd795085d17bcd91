"""The server lives as long as the session, the browser as long as a module.

While Playwright is started its event loop runs, in which other tests could not start theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.lab import PATIENCE, Lab, launch, server

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="session")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the server shows."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="session")
def lab_address(lab_folder: Path) -> Iterator[str]:
    """Start the server; everything that starts later in the session uses it."""
    with server(lab_folder) as address:
        yield address


@pytest.fixture(scope="module")
def lab(lab_address: str, lab_folder: Path) -> Iterator[Lab]:
    """Return JupyterLab in a browser; pages are closed with it."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield Lab(browser, lab_address, lab_folder)
        browser.close()
