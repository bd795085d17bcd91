"""The form of a recipe in JupyterLab: by mouse, by keyboard, and by code."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELL = """%%theseus gpt/train/pretrain train-gpt --root ./theseus
architecture: {n_embd: 96, n_layers: 2}
training.tokens: 3_000_000"""


def test_a_value_goes_from_the_form_into_code_and_from_code_into_the_form(lab: Lab) -> None:
    book = lab.open(["%load_ext theseus", CELL, "print(q.config.architecture.n_embd)"])
    book.run_all()
    form = book.output(1).locator(".jp-theseus-form")
    width = form.locator('[data-key="architecture.n_embd"] input[type=text]')
    expect(width).to_have_value("96")
    expect(book.output(1)).to_contain_text("tokens/step")

    width.fill("128")
    expect(form.locator(".t-count")).to_contain_text("3 of")
    book.run(2)
    assert book.text(2) == "128"

    width.press("ArrowUp")  # a logarithmic key: twice as much
    expect(width).to_have_value("256")
    width.press("Enter")
    form.get_by_role("button", name="Show code").click()
    expect(form.locator("pre")).to_contain_text("q.config.architecture.n_embd = 256")

    assert (
        book.execute("q.config.architecture.n_embd = 192\nq.config.architecture.rope = True") == ""
    )
    expect(width).to_have_value("192")
    expect(form.locator("pre")).to_contain_text("q.config.architecture.rope = True")

    width.fill("wide")
    expect(form).to_contain_text("expected int ≥ 1, got 'wide' (str)")
    assert book.execute("q.config.architecture.n_embd") == "192"
    expect(width).to_have_value("wide")  # what is typed is not dropped
    width.press("Escape")
    expect(width).to_have_value("192")

    form.get_by_role("button", name="undo", exact=True).click()
    expect(width).to_have_value("256")
    book.save()
    book.reload()  # the page is new, the kernel goes on
    expect(width).to_have_value("256")
    expect(form).to_contain_text("parameters")
    assert book.console == []
