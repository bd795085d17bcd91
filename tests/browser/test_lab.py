"""The helpers of this folder, on a notebook without theseus."""

from __future__ import annotations

import pytest

from tests.browser.lab import Lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_cells_run_in_a_real_kernel_and_what_they_show_can_be_read(lab: Lab) -> None:
    book = lab.open(["n = 20", "print(n + 22)"])
    book.run_all()
    assert book.text(1) == "42"
    book.write(0, "n = 30")
    book.run(0)
    book.run(1)
    assert book.text(1) == "52"
    assert book.execute("n * 2") == "60"
    book.dark()
    assert [one["outputs"][0]["output_type"] for one in book.save()["cells"][1:]] == [
        "stream",
        "execute_result",
    ]
    book.reload()
    assert book.text(1) == "52"
    assert book.execute("n") == "30"
