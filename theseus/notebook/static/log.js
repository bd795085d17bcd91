// The log of a run: what its terminals show, in a window that only ever holds the rows in sight.

import { h } from "./dom.js";
import { Terminal } from "./terminal.js";

const ROW = 18; // pixels; log.css says the same
const SPARE = 8; // rows above and below those in sight
const NEAR = ROW * 1.5; // from the end, in pixels, that still counts as there

/** @typedef {{ lane: string, text?: string, note?: string }} Part */

/** The logs of one run, one terminal for each node; outlives the views that show it. */
export class LogStore {
  constructor() {
    /** @type {Map<string, Terminal>} */
    this.lanes = new Map();
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** Take in a batch. */
  take(/** @type {Part[]} */ parts) {
    for (const { lane, text, note } of parts) {
      let terminal = this.lanes.get(lane);
      if (!terminal) this.lanes.set(lane, (terminal = new Terminal()));
      if (text) terminal.feed(text);
      if (note) terminal.note(note);
    }
    this.tell();
  }

  /** Forget everything, before it is sent again. */
  reset() {
    for (const terminal of this.lanes.values()) terminal.clear();
    this.tell();
  }

  tell() {
    for (const listener of this.listeners) listener();
  }
}

/**
 * A view of a store.
 * @param {LogStore} store
 * @param {{ label?: (lane: string) => string }} [options]
 * @returns {{ element: HTMLElement, stop: () => void }}
 */
export function logView(store, { label = (lane) => `node ${lane}` } = {}) {
  /** @type {Map<string, Lane>} */
  const lanes = new Map();
  let only = ""; // the lane that is shown alone; empty: all of them
  let query = "";
  const columns = h("div", { class: "t-lanes" });
  const tabs = h("div", { class: "t-tabs", role: "group", "aria-label": "which node's log" });
  const follow = h("button", { type: "button", class: "t-follow", onclick: toEnd });
  const state = h("span", { class: "t-sr", role: "status" });
  const found = h("span", { class: "t-found", role: "status" });
  const field = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", placeholder: "search the log", "aria-label": "search the log" })
  );
  const previous = button("↑", "previous match", () => step(-1));
  const next = button("↓", "next match", () => step(1));
  const bar = h(
    "div",
    { class: "t-logbar" },
    follow,
    state,
    tabs,
    h("span", { class: "t-push" }),
    h("span", { class: "t-search" }, field, found, previous, next),
  );
  const empty = h("div", { class: "t-empty" }, "Nothing was printed yet.");
  const element = h("div", { class: "t-log" }, bar, columns, empty);
  let frame = 0;
  let told = "";

  field.addEventListener("input", () => {
    query = field.value.toLowerCase();
    for (const lane of shown()) lane.search(query);
    if (query) step(-1);
    else draw();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && field.value) {
      field.value = "";
      field.dispatchEvent(new Event("input"));
    }
  });

  function shown() {
    return [...lanes.values()].filter((lane) => !only || lane.name === only);
  }

  /** Go to the next match, from where the last one was. */
  function step(/** @type {number} */ by) {
    // With several lanes, the first that has a match leads.
    const lane = shown().find((one) => one.matches.length);
    lane?.step(by);
    draw();
  }

  function toEnd() {
    for (const lane of shown()) lane.follow();
    draw();
  }

  function schedule() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    for (const [name, terminal] of store.lanes) {
      if (lanes.has(name)) continue;
      const lane = new Lane(name, terminal, label(name), schedule);
      lane.search(query);
      lanes.set(name, lane);
      columns.append(lane.element);
      drawTabs();
    }
    let fresh = 0;
    let lines = 0;
    let following = true;
    for (const lane of shown()) {
      lane.draw();
      fresh += lane.fresh;
      lines += lane.terminal.end - lane.terminal.first;
      following &&= lane.following;
    }
    empty.hidden = lines > 0;
    columns.hidden = lines === 0;
    follow.hidden = lines === 0;
    const text = following ? "following" : fresh ? `${count(fresh)} new ${fresh === 1 ? "line" : "lines"} ↓` : "paused: to the end ↓";
    if (text !== follow.textContent) follow.textContent = text;
    follow.toggleAttribute("disabled", following);
    // What is read aloud changes with the state, not with every line.
    const now = following ? "following the log" : "paused";
    if (now !== told) state.textContent = told = now;
    const hits = shown().reduce((sum, lane) => sum + lane.matches.length, 0);
    const lane = shown().find((one) => one.matches.length);
    found.textContent = !query ? "" : hits ? `${(lane?.at ?? 0) + 1} of ${count(hits)}` : "no match";
    for (const one of [previous, next]) one.hidden = !query || !hits;
  }

  function drawTabs() {
    tabs.replaceChildren();
    tabs.hidden = lanes.size < 2;
    for (const [name, text] of [["", "all"], ...[...lanes.keys()].map((one) => [one, label(one)])]) {
      tabs.append(
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(name === only),
            onclick: () => {
              only = name;
              for (const lane of lanes.values()) lane.element.hidden = only !== "" && lane.name !== only;
              drawTabs();
              draw();
            },
          },
          text,
        ),
      );
    }
  }

  const resized = new ResizeObserver(schedule);
  resized.observe(columns);
  store.listeners.add(schedule);
  draw();
  return {
    element,
    stop() {
      store.listeners.delete(schedule);
      resized.disconnect();
      cancelAnimationFrame(frame);
    },
  };
}

/** One terminal in a scrolling window. */
class Lane {
  /** @param {string} name @param {Terminal} terminal @param {string} label @param {() => void} schedule */
  constructor(name, terminal, label, schedule) {
    this.name = name;
    this.terminal = terminal;
    this.following = true;
    this.seen = 0; // the end of the log when it was left
    this.query = "";
    /** @type {number[]} numbers of the lines that match */
    this.matches = [];
    this.at = 0;
    this.searched = 0; // lines before this one have been searched
    this.first = terminal.first;
    /** @type {Map<number, HTMLElement>} */
    this.shown = new Map();
    this.top = 0;
    this.rows = h("div", { class: "t-rows" });
    this.space = h("div", { class: "t-space" }, this.rows);
    this.view = h("div", { class: "t-view", tabindex: "0", role: "log", "aria-live": "off", "aria-label": `log, ${label}` }, this.space);
    this.element = h("div", { class: "t-lane", "data-lane": name }, h("div", { class: "t-lane-name" }, label), this.view);
    this.view.addEventListener("scroll", () => this._scrolled(schedule));
  }

  /** How many lines came since the end was left. */
  get fresh() {
    return this.following ? 0 : Math.max(this.terminal.end - Math.max(this.seen, this.terminal.first), 0);
  }

  follow() {
    this.following = true;
  }

  /** @param {() => void} schedule */
  _scrolled(schedule) {
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    const atEnd = scrollHeight - clientHeight - scrollTop < NEAR;
    // Only a reader moves upwards; we follow downwards, and new lines alone move nothing.
    if (atEnd) this.following = true;
    else if (scrollTop < this.top - 1) this._pause();
    this.top = scrollTop;
    schedule();
  }

  _pause() {
    if (this.following) this.seen = this.terminal.end;
    this.following = false;
  }

  search(/** @type {string} */ query) {
    this.query = query;
    this.matches = [];
    this.at = 0;
    this.searched = this.terminal.first;
    for (const row of this.shown.values()) row.remove();
    this.shown.clear();
    this._findNew(this.terminal.first);
  }

  _findNew(/** @type {number} */ changed) {
    if (!this.query) return;
    const { terminal } = this;
    const from = Math.max(Math.min(this.searched, changed), terminal.first);
    while (this.matches.length && this.matches[this.matches.length - 1] >= from) this.matches.pop();
    for (let at = from; at < terminal.end; at++) {
      if (terminal.text(at).toLowerCase().includes(this.query)) this.matches.push(at);
    }
    this.searched = terminal.end;
    let gone = 0;
    while (gone < this.matches.length && this.matches[gone] < terminal.first) gone++;
    if (gone) {
      this.matches.splice(0, gone);
      this.at = Math.max(this.at - gone, 0);
    }
  }

  /** Go to another match; the first call goes to the last match. */
  step(/** @type {number} */ by) {
    const { matches } = this;
    this.at = (this.at + by + matches.length) % matches.length;
    this._pause();
    const middle = (matches[this.at] - this.terminal.first) * ROW - this.view.clientHeight / 2 + ROW;
    this.view.scrollTop = this.top = Math.max(middle, 0);
    for (const [number, row] of this.shown) row.classList.toggle("t-current", number === matches[this.at]);
  }

  draw() {
    const { terminal, view, shown } = this;
    const changed = terminal.taken();
    if (changed < terminal.end) this._findNew(changed);
    const dropped = terminal.first - this.first;
    this.first = terminal.first;
    const total = terminal.end - terminal.first;
    this.space.style.height = `${total * ROW}px`;
    if (this.following) view.scrollTop = this.top = Math.max(total * ROW - view.clientHeight + 2 * ROW, 0);
    // What is read stays where it is while lines above it are dropped.
    else if (dropped > 0) view.scrollTop = this.top = Math.max(this.top - dropped * ROW, 0);
    this.top = view.scrollTop;
    const start = terminal.first + Math.max(Math.floor(view.scrollTop / ROW) - SPARE, 0);
    const stop = Math.min(start + Math.ceil(view.clientHeight / ROW) + 2 * SPARE, terminal.end);
    for (const [number, row] of shown) {
      if (number < start || number >= stop || number < terminal.first) {
        row.remove();
        shown.delete(number);
      }
    }
    this.rows.style.top = `${(start - terminal.first) * ROW}px`;
    for (let at = start; at < stop; at++) {
      let row = shown.get(at);
      if (row && at < changed) continue;
      if (!row) {
        row = h("div", { class: "t-row" });
        shown.set(at, row);
        // Rows that stay are not touched, so that what is selected in them stays selected.
        const after = shown.get(at + 1);
        if (after) this.rows.insertBefore(row, after);
        else {
          const before = shown.get(at - 1);
          if (before) before.after(row);
          else this.rows.append(row);
        }
      }
      fill(row, terminal.spans(at), this.query);
      row.classList.toggle("t-current", !!this.query && at === this.matches[this.at]);
    }
  }
}

/** Put a line into its row: as text, whatever it says. */
function fill(/** @type {HTMLElement} */ row, /** @type {import("./terminal.js").Span[]} */ spans, /** @type {string} */ query) {
  row.replaceChildren();
  const marks = query ? places(spans.map(([text]) => text).join(""), query) : [];
  let at = 0;
  for (const [text, look] of spans) {
    let begun = 0;
    for (const [from, to] of marks) {
      const start = Math.max(from - at, begun);
      const end = Math.min(to - at, text.length);
      if (start >= end) continue;
      row.append(...piece(text.slice(begun, start), look), h("mark", { class: look || false }, text.slice(start, end)));
      begun = end;
    }
    row.append(...piece(text.slice(begun), look));
    at += text.length;
  }
}

/** @param {string} text @param {string} look @returns {(Node | string)[]} */
function piece(text, look) {
  if (!text) return [];
  return [look ? h("span", { class: look }, text) : text];
}

/** @param {string} text @param {string} query @returns {[number, number][]} */
function places(text, query) {
  /** @type {[number, number][]} */
  const found = [];
  const low = text.toLowerCase();
  for (let at = low.indexOf(query); at >= 0; at = low.indexOf(query, at + query.length)) found.push([at, at + query.length]);
  return found;
}

function count(/** @type {number} */ number) {
  return number.toLocaleString("en-US");
}

function button(/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ onclick) {
  return h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
}
