"""A log in the browser is what a terminal would show of it, as text and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from theseus.notebook import front

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")

HERE = Path(__file__).parent
STATIC = Path(front.__file__).parent / "static"
CASES = json.loads((HERE.parent / "cases" / "terminal.json").read_text())
RED, PLAIN = "t-c1", ""


def shown(*jobs: Any, **bounds: int) -> list[dict[str, Any]]:
    """Return what a terminal shows for each job: a text, or the chunks in which it comes."""
    asked = [{"chunks": [job] if isinstance(job, str) else job, "bounds": bounds} for job in jobs]
    # Node takes a file for a module by its ending, or by what it says.
    done = subprocess.run(
        ["node", HERE / "terminal_lines.mjs", STATIC / "terminal.js"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def lines(*jobs: Any, **bounds: int) -> list[list[str]]:
    """Return the lines for each job."""
    return [one["lines"] for one in shown(*jobs, **bounds)]


def test_the_cases_come_out_as_a_terminal_shows_them() -> None:
    got = lines(*(case["input"] for case in CASES))
    assert dict(zip((case["what"] for case in CASES), got, strict=True)) == {
        case["what"]: case["want"] for case in CASES
    }


def test_however_a_log_is_cut_it_comes_out_the_same() -> None:
    more = [
        "\x1b[1;38;5;208mwarm\x1b[0m \x1b]8;;http://example.invalid\x1b\\there\x1b]8;;\x1b\\ 👩‍💻e\u0301\r\n",
        "10%\r20%\x1b[K\rdone\x1b[0K\n\x1b[2;3Hx\x1b[?25l\x07",
    ]
    texts = [case["input"] for case in CASES] + more
    whole = shown(*texts)
    letters = [
        # as Python sends them: a character beyond the first plane is one, and whole
        list(text)
        for text in texts
    ]
    assert shown(*letters) == whole


def test_a_hundred_steps_of_a_progress_bar_leave_one_line() -> None:
    steps = [f"\r{n:3d}%|{'#' * (n // 10):10}| {n}/100 [00:01<00:00]" for n in range(101)]
    assert lines([*steps, "\n"]) == [["100%|##########| 100/100 [00:01<00:00]"]]


def test_two_progress_bars_below_each_other_each_keep_their_line() -> None:
    text = "outer 0\n"
    for n in range(5):
        text += f"\rinner {n}\x1b[A\router {n}\n"
    assert lines(text) == [["outer 4", "inner 4"]]


def test_the_cursor_goes_where_a_terminal_puts_it() -> None:
    cases = [
        ("abc\x1b[2Dx", ["axc"]),
        ("abc\x1b[1Gx", ["xbc"]),
        ("ab\x1b[3Cx", ["ab   x"]),
        ("abcdef\x1b[3G\x1b[K", ["ab"]),
        ("abcdef\x1b[3G\x1b[1K", ["   def"]),
        ("abcdef\x1b[2G\x1b[2P", ["adef"]),
        ("a\tb\n\t\tc", ["a       b", "                c"]),
        ("longer line\rshort\n", ["short" + "r line"]),
        ("one\ntwo\x1b[A\x1b[Jx", ["onex", ""][:1]),
        ("a\n\n\nb\n", ["a", "", "", "b"]),
        ("", []),
        ("\n", [""]),
    ]
    got = lines(*(text for text, _ in cases))
    for (text, want), found in zip(cases, got, strict=True):
        assert found == want, text


def test_what_would_hide_is_made_visible() -> None:
    cases = [
        ("a\x00b\x07c\x7f", "a^@b^Gc^?"),
        ("a\x9bb", "a\\x9bb"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("e\u0301", "e\u0301"),
        ("\x1b\x01", "^[^A"),
        ("\x1b]0;no end\nnext", "^[]0;no end"),
        ("\x1b[12\x01m", "^[[12^Am"),
    ]
    got = lines(*(text for text, _ in cases))
    for (text, want), found in zip(cases, got, strict=True):
        assert found[0] == want, text


def test_an_escape_that_never_ends_hides_no_more_than_a_page() -> None:
    (got,) = lines("\x1b]0;" + "x" * 5000 + " after")
    assert got[0].endswith("x after")
    assert got[0].startswith("^[]0;")


def test_colours_are_classes_of_ours() -> None:
    cases = [
        ("31", "t-c1"),
        ("1;91", "t-c9 t-bold"),
        ("38;5;196", "t-c9"),
        ("38;5;208", "t-c11"),
        ("38;5;244", "t-c8"),
        ("38;2;30;60;240", "t-c12"),
        ("38:2::0:128:0", "t-c2"),
        ("48;5;21", "t-b12"),
        ("31;44", "t-b4"),
        ("7", "t-inverse"),
        ("31;7", "t-b1"),
        ("31;39", ""),
        ("4;24", ""),
        ("2", "t-dim"),
        ("999", ""),
    ]
    got = shown(*(f"\x1b[{codes}mx\x1b[0my" for codes, _ in cases))
    for (codes, look), one in zip(cases, got, strict=True):
        assert one["spans"] == [[["x", look], ["y", ""]] if look else [["xy", ""]]], codes


def test_a_look_ends_where_it_is_overwritten() -> None:
    (got,) = shown("\x1b[31mredred\x1b[0m\rxxx")
    assert got["spans"] == [[["xxx", PLAIN], ["red", RED]]]


def test_only_the_last_lines_are_kept_and_keep_their_numbers() -> None:
    (got,) = shown("".join(f"line {n}\n" for n in range(1000)), lines=100)
    assert got["lines"][-1] == "line 999"
    assert 100 <= len(got["lines"]) <= 111
    assert got["lines"][0] == f"line {got['first']}"


def test_a_line_without_an_end_is_cut_and_says_so() -> None:
    (got,) = shown(["x" * 1000] * 30, width=5000)
    assert len(got["lines"][0]) == 5000
    assert got["lines"][0].endswith("x…")


def test_the_text_kept_is_bounded_however_long_the_lines_are() -> None:
    (got,) = shown(["y" * 900 + "\n"] * 200, characters=20_000)
    kept = sum(map(len, got["lines"]))
    assert 17_000 <= kept <= 20_000
    assert got["stored"] == kept


def test_ten_times_the_log_takes_about_ten_times_as_long() -> None:
    program = """
      const { Terminal } = await import(process.argv[1]);
      const line = "\\x1b[32mstep\\x1b[0m 12 loss 3.412 \\r\\n".repeat(20);
      const took = (times) => {
        const terminal = new Terminal({ lines: 2000 });
        const before = process.cpuUsage().user;
        for (let n = 0; n < times; n++) terminal.feed(line);
        return process.cpuUsage().user - before;
      };
      took(200);
      console.log(took(5000) / took(500));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program, STATIC / "terminal.js"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 30  # one that looks at all lines for each would take 100 times


# The colours

THEMES = {"light": "#ffffff", "dark": "#111111"}  # the ground of outputs in JupyterLab


def colours(sheet: str, dark: bool) -> dict[str, str]:
    """Return the variables `--t-cN` and `--t-bN` that hold in a theme."""
    blocks = re.findall(r"([^{}]+)\{([^{}]*--t-c1:[^{}]*)\}", sheet)
    found = [body for head, body in blocks if ('data-jp-theme-light="false"' in head) == dark]
    return dict(re.findall(r"--(t-[cb]\d+|t-\w+):\s*(#[0-9a-f]{6})", found[0]))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_can_be_read_in_both_themes(theme: str) -> None:
    found = colours((STATIC / "log.css").read_text(), dark=theme == "dark")
    ground, text = THEMES[theme], {"light": "#212121", "dark": "#e0e0e0"}[theme]
    assert {f"t-c{n}" for n in range(16)} | {f"t-b{n}" for n in range(16)} <= set(found)
    for name, colour in found.items():
        if name.startswith("t-b"):
            assert contrast(text, colour) >= 4.5, (name, colour)
        else:
            assert contrast(colour, ground) >= 4.5, (name, colour)
