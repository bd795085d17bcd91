"""The card of a run in a bare page: what a reader sees, does and hears, without a kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.lab import launch
from theseus.notebook import front

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUN = {
    "id": "7f3a1c09", "name": "train <i>gpt</i>", "project": "general", "group": "default",
    "job": "gpt/train/pretrain", "host": "mybox", "chips": "4 × h100", "state": "running",
    "shape": "●", "headline": "running", "reason": "", "starts": "", "elapsed": 61.0,
    "progress": {"position": "step 1/4 (25 %)", "fraction": 0.25, "remaining": "9 s left",
                 "total": 4},
    "facts": [{"label": "loss", "value": "3.41", "detail": ""}], "folder": "/data/run", "log": "",
    "connection": "", "ended": False, "can": ["cancel", "fetch"], "code": "run.state",
}  # fmt: skip
EMPTY: dict[str, list[Any]] = {"step": [], "tokens": [], "time": [], "value": []}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page with a card, over a model that keeps what is sent in `window.sent`."""
    card = {"run": RUN, "answers": {}, "others": [], "compared": []}
    page = browser.new_page(viewport={"width": 1000, "height": 700})
    page.set_content(
        f"""<style>{front.css("chart", "log", "card")}</style><div id="at"></div>
        <script type="module">
        const text = {json.dumps(front.esm("run_card"))};
        const url = URL.createObjectURL(new Blob([text], {{ type: "text/javascript" }}));
        const traits = {{ key: "k", card: {json.dumps(card)} }}, on = {{}};
        window.sent = [];
        const model = {{
          get: (name) => traits[name], off() {{}}, send: (message) => window.sent.push(message),
          on: (name, listener) => (on[name] ??= []).push(listener),
        }};
        window.say = (message) => (on["msg:custom"] ?? []).forEach((one) => one(message));
        window.end = () => on["comm_live_update"].forEach((one) => one());
        window.card = (run, more = {{}}) => {{
          traits.card = {{ ...traits.card, run: {{ ...traits.card.run, ...run }}, ...more }};
          on["change:card"].forEach((one) => one());
        }};
        const module = (await import(url)).default;
        module.initialize({{ model }});
        window.stop = module.render({{ model, el: document.getElementById("at") }});
        window.ready = true;
        </script>"""
    )
    page.wait_for_function("window.ready")
    yield page
    page.close()


def log(page: Page, text: str, lane: str = "0") -> None:
    """Send text of a log, and wait until it is drawn."""
    page.evaluate(
        """(message) => { window.say(message);
           return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }""",
        {"type": "feed", "logs": [{"lane": lane, "text": text}]},
    )


def rows(page: Page) -> list[str]:
    return page.locator(".t-row").all_inner_texts()


def test_a_log_is_followed_until_its_reader_scrolls_up(page: Page) -> None:
    expect(page.get_by_text("Nothing was printed yet")).to_be_visible()
    log(page, "".join(f"line {n}\n" for n in range(500)))
    assert rows(page)[-1] == "line 499"
    assert len(rows(page)) < 60  # only those in sight are in the page
    follow = page.locator(".t-follow")
    expect(follow).to_have_text("following")
    view = page.get_by_role("log")
    view.hover()
    page.mouse.wheel(0, -2000)
    expect(follow).to_have_text("paused: to the end ↓")
    before = rows(page)
    log(page, "more\n" * 3)
    expect(follow).to_have_text("3 new lines ↓")
    assert rows(page) == before  # what is read stays where it is
    follow.click()
    expect(follow).to_have_text("following")
    assert rows(page)[-1] == "more"
    view.focus()
    page.keyboard.press("Home")
    expect(follow).to_have_text("paused: to the end ↓")
    page.keyboard.press("End")
    expect(follow).to_have_text("following")


def test_what_is_read_stays_where_it_is_while_old_lines_are_dropped(page: Page) -> None:
    log(page, "".join(f"line {n}\n" for n in range(21_900)))
    page.get_by_role("searchbox").fill("line 15000")
    expect(page.locator(".t-found")).to_have_text("1 of 1")
    log(page, "more\n" * 3000)  # more than is kept
    expect(page.locator(".t-row.t-current")).to_have_text("line 15000")
    assert "line 15001" in rows(page)


def test_nothing_in_a_log_is_more_than_text(page: Page) -> None:
    log(
        page,
        "<img src=x onerror='window.hit=1'><script>window.hit=1</script> https://example.invalid\n"
        "\x1b]8;;https://example.invalid\x07click\x1b]8;;\x07 \x1b[31;1mred\x1b[0m\n",
    )
    assert rows(page)[0].startswith("<img src=x")
    assert page.locator(".t-log img, .t-log script, .t-log a").count() == 0
    assert page.evaluate("window.hit") is None
    assert page.locator(".t-row .t-c1.t-bold").inner_text() == "red"
    assert page.locator(".t-name").inner_text() == "train <i>gpt</i>"


def test_search_marks_counts_and_goes_around(page: Page) -> None:
    log(page, "".join(f"step {n} {'OOM' if n % 100 == 7 else 'ok'}\n" for n in range(500)))
    field = page.get_by_role("searchbox")
    field.fill("oom")
    found = page.locator(".t-found")
    expect(found).to_have_text("5 of 5")
    expect(page.locator(".t-row.t-current")).to_have_text("step 407 OOM")
    assert page.locator("mark").all_inner_texts() == ["OOM"]
    field.press("Enter")
    expect(found).to_have_text("1 of 5")
    field.press("Shift+Enter")
    expect(found).to_have_text("5 of 5")
    log(page, "OOM again\n")
    expect(found).to_have_text("5 of 6")
    field.fill("nowhere")
    expect(found).to_have_text("no match")
    field.press("Escape")
    expect(found).to_have_text("")


def test_each_node_has_a_lane_in_which_no_other_writes(page: Page) -> None:
    log(page, "\r10%", "0")
    log(page, "\r90%", "1")
    log(page, "\r20%", "0")
    lanes = page.locator(".t-lane")
    assert lanes.locator(".t-view").all_inner_texts() == ["20%", "90%"]
    page.get_by_role("button", name="node 1", exact=True).click()
    expect(lanes.nth(0)).to_be_hidden()
    expect(lanes.nth(1)).to_be_visible()


def test_twenty_megabytes_leave_the_page_quick_and_small(page: Page) -> None:
    worst = page.evaluate(
        """async () => {
          const line = "\\u001b[32mINFO\\u001b[0m step 12 loss 3.412 grad 0.1 182,031 tok/s\\n";
          const text = line.repeat(600);
          let worst = 0, last = performance.now(), going = true;
          const frame = () => { const now = performance.now(); worst = Math.max(worst, now - last);
                                last = now; if (going) requestAnimationFrame(frame); };
          requestAnimationFrame(frame);
          for (let n = 0; n < 500; n++) {
            window.say({ type: "feed", logs: [{ lane: "0", text }] });
            if (n % 2) await new Promise((done) => requestAnimationFrame(done));
          }
          going = false;
          return worst;
        }"""
    )
    assert worst < 1000  # milliseconds; a page that copies its log for each batch takes many
    assert page.locator(".t-log *").count() < 400


def test_cancel_asks_first_and_the_keyboard_is_enough(page: Page) -> None:
    page.get_by_role("button", name="Cancel", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Keep it running")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    assert [one["type"] for one in page.evaluate("window.sent")] == ["hello"]
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("window.sent.at(-1)") == {"type": "cancel"}
    page.evaluate(
        "window.card({}, {answers: {cancel: {busy: true, ok: true, text: 'ending it …'}}})"
    )
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    page.evaluate(
        """window.card({state: "cancelled", shape: "■", headline: "cancelled", ended: true,
                        can: ["fetch", "resubmit"]},
                       {answers: {cancel: {busy: false, ok: false, text: "no answer from mybox"}}})"""
    )
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()
    expect(page.locator(".t-answer")).to_have_text("no answer from mybox")
    expect(page.locator(".t-state")).to_have_text("■cancelled")


def test_every_control_has_a_name_and_changes_are_announced_once(page: Page) -> None:
    log(page, "x\n")
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, select, canvas, [role=log]")].filter((one) =>
             !one.hidden && !one.getAttribute("aria-label") && !one.textContent.trim()
             && !one.closest("label")).map((one) => one.outerHTML)"""
    )
    assert nameless == []
    spoken = page.locator(".t-card > .t-sr")
    assert spoken.inner_text() == "train <i>gpt</i>: running"
    page.evaluate("window.card({headline: 'running (attempt 2)'})")
    assert spoken.inner_text() == "train <i>gpt</i>: running"
    page.evaluate("window.card({state: 'finished', headline: 'finished in 2 s', ended: true})")
    assert spoken.inner_text() == "train <i>gpt</i>: finished in 2 s"


def test_a_curve_is_drawn_and_described(page: Page) -> None:
    train = {"step": [1, 2, 3], "tokens": [8, 16, 24], "time": [1, 2, 3], "value": [4, 3, 2]}
    page.evaluate(
        "(message) => window.say(message)",
        {
            "type": "feed",
            "curves": [{"run": "a", "label": "mine", "train": train, "validation": EMPTY}],
        },
    )
    canvas = page.get_by_role("img")
    expect(canvas).to_have_attribute(
        "aria-label", "Loss over steps: mine train loss from 4 to 2, steps 1 to 3"
    )
    ink = """() => { const c = document.querySelector("canvas"); const d = c.getContext("2d")
             .getImageData(0, 0, c.width, c.height).data; let n = 0;
             for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n; }"""
    assert page.evaluate(ink) > 500
    page.get_by_label("along the axis").select_option("tokens")
    expect(canvas).to_have_attribute(
        "aria-label", "Loss over tokens: mine train loss from 4 to 2, steps 1 to 3"
    )
    canvas.hover()
    expect(page.locator(".t-point")).to_contain_text("16 tokens · train 3")


def test_a_card_whose_kernel_has_ended_says_so_and_asks_nothing_more(page: Page) -> None:
    page.evaluate("window.end()")
    expect(page.get_by_role("alert")).to_contain_text("The kernel has ended")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    sent = page.evaluate("window.sent.length")
    page.evaluate("window.stop()")
    assert page.evaluate("window.sent.length") == sent


def test_a_view_that_is_removed_says_bye(page: Page) -> None:
    page.evaluate("window.stop()")
    assert [one["type"] for one in page.evaluate("window.sent")] == ["hello", "bye"]
