"""One half of the package without the other: the page without our extension, and without our server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.lab import Lab, launch, server

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = "%%theseus gpt/train/pretrain halves --root ./root\narchitecture: {n_layers: 2, n_embd: 64}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()


def test_without_the_server_part_the_panel_says_what_is_missing(
    browser: Browser, tmp_path: Path
) -> None:
    off = '--ServerApp.jpserver_extensions={"theseus.lab": False}'
    with server(tmp_path, off) as address:
        page = Lab(browser, address, tmp_path).whole([])
        page.get_by_role("tab", name="Theseus").click()
        panel = page.locator("#theseus-panel")
        expect(panel).to_contain_text("The server part of Theseus is not here")
        expect(panel).to_contain_text("pip install theseus-jupyter")
        page.close()


def test_without_the_extension_the_cell_has_its_form(browser: Browser, tmp_path: Path) -> None:
    with server(tmp_path, extension=False) as address:
        console: list[str] = []
        lab = Lab(browser, address, tmp_path)
        whole = lab.whole(console)
        expect(whole.get_by_role("tab", name="File Browser")).to_be_visible()
        expect(whole.get_by_role("tab", name="Theseus")).to_have_count(0)
        whole.close()
        book = lab.open(["%load_ext theseus", CELL])
        book.run_all()
        form = book.output(1)
        expect(form).to_contain_text(re.compile(r"n_embd"))
        book.page.close()
        assert [one for one in console if "theseus" in one.lower()] == []
