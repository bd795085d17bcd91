"""`%%theseus` cells in a real JupyterLab: colours, completion, mistakes and help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, Notebook
from theseus._job_keys import keys_of_job

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = """%%theseus gpt/train/pretrain train-gpt --root "./my runs" --chip h100
# a small one
architecture: {n_emb: 128, bias: true}
training.tokens: 32_768
data.note: 'for you'"""
PYTHON = "import time\nfor n_emb in [1]: time.sleep(n_emb * 0)"


@pytest.fixture(scope="module")
def book(lab: Lab) -> Iterator[Notebook]:
    assert keys_of_job("gpt/train/pretrain")  # at hand, as after the first Tab
    found = lab.open([CELL, PYTHON, "time.sleep(60)"])
    yield found
    found.page.close()


def part(book: Notebook, index: int, kind: str) -> Locator:
    return book.cell(index).locator(f".jp-theseus-cell-{kind}")


def colour(place: Locator) -> str:
    """Return the colour in which the letters of a place are seen."""
    seen: str = place.first.evaluate(
        """node => {
          while (node.firstElementChild) node = node.firstElementChild;
          return getComputedStyle(node).color;
        }"""
    )
    return seen


def test_the_cell_is_coloured_and_another_is_untouched(book: Notebook) -> None:
    assert part(book, 0, "magic").all_inner_texts() == ["%%theseus"]
    assert part(book, 0, "job").all_inner_texts() == ["gpt/train/pretrain"]
    assert part(book, 0, "option").all_inner_texts() == ["--root", "--chip"]
    keys = ["architecture", "n_emb", "bias", "training.tokens", "data.note"]
    assert part(book, 0, "key").all_inner_texts() == keys
    assert part(book, 0, "string").all_inner_texts() == ['"./my runs"', "'for you'"]
    assert part(book, 0, "number").all_inner_texts() == ["128", "32_768"]
    assert part(book, 0, "constant").all_inner_texts() == ["true"]
    kinds = ("key", "string", "number", "comment", "plain")
    for dark in (False, True):
        book.dark(dark)
        assert len({colour(part(book, 0, kind)) for kind in kinds}) == len(kinds)
    book.dark(False)
    assert book.cell(1).locator("[class*=jp-theseus]").count() == 0


def test_a_mistyped_key_is_underlined_and_mended(book: Notebook) -> None:
    book.cell(0).locator(".cm-content").click()
    wrong = part(book, 0, "mistake")
    expect(wrong.filter(has_text="n_emb")).to_have_text("n_emb")
    wrong.filter(has_text="n_emb").hover()
    tip = book.page.locator(".jp-theseus-cell-tip")
    expect(tip).to_contain_text(
        "architecture.n_emb: no such key, did you mean 'architecture.n_embd'?"
    )
    tip.get_by_role("button", name="Replace with n_embd").click()
    expect(book.cell(0).locator(".cm-content")).to_contain_text("{n_embd: 128")
    expect(wrong.filter(has_text="n_emb")).to_have_count(0)
    # The other one has no near word: it stays, without a fix.
    expect(wrong).to_have_text("data.note")


def test_a_mistake_is_mended_by_keyboard(book: Notebook) -> None:
    book.write(0, "%%theseus gpt/train/pretrain t --root x\narchitecture.n_layer: 2")
    expect(part(book, 0, "mistake")).to_have_text("architecture.n_layer")
    book.page.keyboard.press("Alt+Enter")
    expect(book.cell(0).locator(".cm-content")).to_contain_text("architecture.n_layers: 2")
    expect(part(book, 0, "mistake")).to_have_count(0)


def test_a_key_explains_itself_on_hover(book: Notebook) -> None:
    book.write(0, "%%theseus gpt/train/pretrain t --root x\narchitecture.n_embd: 64")
    book.page.mouse.move(5, 5)
    part(book, 0, "key").first.hover()
    tip = book.page.locator(".jp-theseus-cell-tip")
    expect(tip).to_contain_text("architecture.n_embd")
    expect(tip).to_contain_text("int ≥ 1 = 768")
    expect(tip).to_contain_text("width of the residual stream")


def test_keys_are_completed_while_the_kernel_is_busy(book: Notebook) -> None:
    book.execute("import time")
    book.cell(2).locator(".cm-content").click()
    book.page.keyboard.press("Control+Enter")
    expect(book.cell(2).locator(".jp-InputPrompt")).to_contain_text("*")
    book.write(0, "%%theseus gpt/train/pretrain t --root x\narchitecture: {n_em")
    book.page.keyboard.press("Tab")
    item = book.page.locator(".jp-Completer-item").filter(has_text="n_embd")
    expect(item).to_have_count(1)
    expect(item).to_contain_text("int ≥ 1 = 768")
    book.page.keyboard.press("Enter")
    expect(book.cell(0).locator(".cm-content")).to_contain_text("{n_embd: ")
    expect(book.cell(2).locator(".jp-InputPrompt")).to_contain_text("*")
    assert not [said for said in book.console if "theseus" in said.lower()]
