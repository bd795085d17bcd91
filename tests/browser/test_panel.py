"""The panel of runs and hosts, and the log document, with a run that a terminal has started."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import Lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

JOB = '''
import time
from dataclasses import dataclass
from theseus.config import configure, field
from theseus.job import Job, StopRequested
from theseus.registry import job

@dataclass
class Keys:
    lines: int = field("slow/lines", default=3)

@job("test/slow")
class Slow(Job):
    """Print lines."""

    CONFIG = Keys

    def run(self, recorder):
        lines = configure(Keys).lines
        for number in range(lines):
            print(f"line {number} <b>&amp;</b>", flush=True)
            recorder.progress(number + 1, lines, unit="steps")
            recorder.report(number + 1, {"train/loss": 3.0 / (number + 1)})
            time.sleep(0.1)
            if recorder.stopping:
                raise StopRequested(recorder.stopping)
'''


@pytest.fixture(scope="module")
def console() -> list[str]:
    return []


@pytest.fixture(scope="module")
def page(lab: Lab, console: list[str]) -> Iterator[Page]:
    """JupyterLab, in which the panel is opened."""
    (lab.folder / ".hosts.yaml").write_text(
        f"hosts:\n  me: {{type: local, python: {sys.executable}}}\n"
    )
    (lab.folder / "slow_job.py").write_text(JOB)
    found = lab.whole(console)
    expect(found.get_by_role("tab", name="Theseus")).to_be_visible()
    yield found
    found.close()


@pytest.fixture(scope="module")
def panel(page: Page) -> Locator:
    page.get_by_role("tab", name="Theseus").click()
    found = page.locator("#theseus-panel")
    expect(found).to_be_visible()
    return found


@pytest.fixture(scope="module")
def shown(lab: Lab, panel: Locator) -> Locator:
    """The row of a run that was submitted in a terminal while the panel was seen."""
    expect(panel).to_contain_text("No run yet")
    script = ("--import", "slow_job.py")
    lab.theseus(*script, "configure", "test/slow", "out.yaml", "slow.lines=6000")
    lab.theseus(*script, "submit", "from a terminal", "out.yaml")
    row = panel.locator(".t-runs .t-row")
    expect(row).to_be_visible(timeout=2000)
    return row


def test_a_run_of_a_terminal_appears_and_goes_on(panel: Locator, shown: Locator) -> None:
    expect(shown).to_contain_text("from a terminal")
    expect(shown).to_contain_text("running")
    expect(shown).to_contain_text("me")
    expect(shown.locator(".t-last")).to_contain_text(re.compile(r"step \d+ +train/loss"))
    expect(shown.locator("polyline")).to_have_count(1)
    before = shown.locator(".t-last").inner_text()
    expect(shown.locator(".t-last")).not_to_have_text(before)
    panel.get_by_placeholder("Filter runs").fill("nothing like it")
    expect(panel).to_contain_text("No run is like that")
    panel.get_by_placeholder("Filter runs").fill("TERMINAL from")
    expect(shown).to_be_visible()
    panel.get_by_placeholder("Filter runs").fill("")


def test_its_log_streams_in_a_document_without_a_kernel(page: Page, shown: Locator) -> None:
    shown.get_by_role("button", name="from a terminal", exact=True).click()
    document = page.locator(".jp-theseus-run-view")
    expect(document.locator(".t-logs")).to_contain_text(re.compile(r"line \d+ <b>&amp;</b>"))
    assert document.locator(".t-logs b").count() == 0
    now = int(re.findall(r"line (\d+)", document.locator(".t-logs").inner_text())[-1])
    expect(document.locator(".t-logs")).to_contain_text(f"line {now + 15} ")
    document.get_by_role("button", name="both").click()
    expect(document.locator("canvas")).to_have_attribute(
        "aria-label", re.compile(r"loss from 3 to 0\.")
    )
    kernels = page.evaluate("() => [...window.jupyterapp.serviceManager.sessions.running()].length")
    assert kernels == 0


def test_the_document_is_there_again_after_a_reload(page: Page, shown: Locator) -> None:
    time.sleep(1.5)  # JupyterLab keeps its layout a moment after it has changed
    page.reload()
    document = page.locator(".jp-theseus-run-view")
    expect(document.locator(".t-head")).to_contain_text("from a terminal")
    expect(document.locator(".t-logs")).to_contain_text(re.compile(r"line \d+ <b>"))
    expect(page.locator("#theseus-panel .t-runs .t-row")).to_contain_text("running")


def test_it_is_cancelled_after_a_question(page: Page, panel: Locator, shown: Locator) -> None:
    more = shown.get_by_role("button", name="What can be done")
    more.click()
    page.get_by_role("menuitem", name="Cancel…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It ends 'from a terminal'")
    dialog.get_by_role("button", name="Keep it running").click()
    expect(shown).to_contain_text("running")
    more.click()
    page.get_by_role("menuitem", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="End this run").click()
    expect(shown).to_contain_text("cancelled")
    expect(page.locator(".jp-theseus-run-view .t-head")).to_contain_text("cancelled")
    more.click()
    expect(page.get_by_role("menuitem", name="Cancel…")).to_have_count(0)
    expect(page.get_by_role("menuitem", name="Resubmit")).to_be_visible()
    page.keyboard.press("Escape")


def test_hosts_say_what_they_have_when_they_are_asked(panel: Locator) -> None:
    hosts = panel.locator(".t-hosts")
    expect(hosts).to_contain_text("me")
    hosts.get_by_role("button", name="Refresh").click()
    expect(hosts).to_contain_text(re.compile(r"\d s ago"))
    expect(hosts).to_contain_text("CPUs")


def test_the_palette_and_the_launcher_make_notebooks(lab: Lab, page: Page) -> None:
    page.evaluate("() => window.jupyterapp.commands.execute('theseus:new-notebook')")
    expect(page.locator(".jp-Notebook .jp-CodeCell").nth(1)).to_contain_text(
        "%%theseus gpt/train/pretrain"
    )
    page.evaluate("() => window.jupyterapp.commands.execute('launcher:create')")
    card = page.locator(".jp-Launcher .jp-LauncherCard").filter(has_text="Training notebook")
    expect(card).to_be_visible()


def test_a_recipe_opens_as_a_cell(lab: Lab, page: Page) -> None:
    lab.theseus("configure", "data/tokenize/text", "tokens.yaml", "data.text.files=[a.txt]")
    page.evaluate(
        "() => { void window.jupyterapp.commands.execute('theseus:submit-recipe',"
        " {path: 'tokens.yaml'}); }"
    )
    cell = page.locator(".jp-Notebook:visible .jp-CodeCell").nth(1)
    expect(cell).to_contain_text(re.compile(r"%%theseus data/tokenize/text .* --submit"))
    expect(cell).to_contain_text("a.txt")


def test_an_open_recipe_offers_a_form_and_to_be_sent(lab: Lab, page: Page) -> None:
    for name in ("tokens.yaml", "other.yaml"):
        (lab.folder / "other.yaml").write_text("jobs: [a]\n")
        page.evaluate(
            "path => window.jupyterapp.commands.execute('docmanager:open', {path})"
            ".then(() => null)",
            name,
        )
        bar = page.locator(".jp-FileEditor:visible").locator("xpath=..").locator(".jp-Toolbar")
        offered = bar.get_by_text("Edit as form")
        if name == "other.yaml":
            expect(page.locator(".jp-FileEditor:visible")).to_contain_text("jobs: [a]")
            expect(offered).to_be_hidden()
        else:
            expect(bar.get_by_text("Submit…")).to_be_visible()
            expect(offered).to_be_visible()
    page.evaluate(
        "() => window.jupyterapp.commands.execute('docmanager:open', {path: 'tokens.yaml'})"
        ".then(() => null)"
    )
    page.locator(".jp-Toolbar:visible").get_by_text("Edit as form").click()
    cell = page.locator(".jp-Notebook:visible .jp-CodeCell").nth(1)
    expect(cell).to_contain_text(re.compile(r"%%theseus data/tokenize/text"))
    expect(cell).not_to_contain_text("--submit")


def test_the_file_browser_offers_it_too(page: Page) -> None:
    page.get_by_role("tab", name="File Browser").click()
    files = page.locator(".jp-DirListing-item")
    files.filter(has_text="slow_job.py").click(button="right")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Edit as form")).to_have_count(0)
    page.keyboard.press("Escape")
    files.filter(has_text="tokens.yaml").click(button="right")
    expect(page.get_by_role("menuitem", name="Edit as form")).to_be_visible()
    expect(page.get_by_role("menuitem", name="Submit…")).to_be_visible()
    page.keyboard.press("Escape")


def test_the_panel_can_be_hidden(page: Page, panel: Locator) -> None:
    page.evaluate(
        """() => window.jupyterapp.serviceManager.settings.save(
             'theseus-jupyter:panel', '{"showPanel": false}')"""
    )
    page.reload()
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    expect(page.get_by_role("tab", name="Theseus")).to_have_count(0)


def test_nothing_went_wrong_in_the_page(console: list[str]) -> None:
    assert [one for one in console if "theseus" in one.lower()] == []
