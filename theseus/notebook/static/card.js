// The card of a run: state, progress, curves, log, and what can be done. Takes plain data through a
// channel, so that a widget and a document without a kernel show the same.

import { chartView, CurveStore } from "./chart.js";
import { h } from "./dom.js";
import { LogStore, logView } from "./log.js";

const SIGN_OF_LIFE = 20000; // milliseconds between signs that somebody looks
const SILENCE = 65000; // without a word from the kernel, until that is said

/**
 * What is known of a run, as `theseus/dispatch/showing.py` makes it.
 * @typedef {object} Facts
 * @property {string} id
 * @property {string} name
 * @property {string} project
 * @property {string} group
 * @property {string} job
 * @property {string} host
 * @property {string} chips
 * @property {string} state a word: queued, preparing, running, finished, failed, cancelled, lost
 * @property {string} shape
 * @property {string} headline
 * @property {string} reason
 * @property {string} starts
 * @property {number | null} elapsed
 * @property {{ position: string, fraction: number | null, remaining: string, total: number | null } | null} progress
 * @property {{ label: string, value: string, detail: string }[]} facts
 * @property {string} folder
 * @property {string} log
 * @property {string} connection what is wrong with the way to the host; empty when nothing is
 * @property {boolean} ended
 * @property {string[]} can of cancel, fetch, resubmit
 * @property {string} code
 */

/** @typedef {{ busy: boolean, ok: boolean, text: string }} Answer */

/**
 * @typedef {object} Card
 * @property {Facts | null} run
 * @property {Record<string, Answer>} answers what became of an action
 * @property {{ id: string, name: string, state: string }[]} others runs that can be drawn beside
 * @property {string[]} compared
 */

/** A run as the kernel tells of it; outlives the views. */
export class CardStore {
  /** @param {(message: Record<string, any>) => void} send */
  constructor(send) {
    this.send = send;
    /** @type {Card} */
    this.card = { run: null, answers: {}, others: [], compared: [] };
    this.log = new LogStore();
    this.curves = new CurveStore();
    this.heard = Date.now();
    this.at = Date.now(); // when `elapsed` was true
    this.gone = false; // the kernel has ended
    this.silent = false; // who feeds it says so itself when there is nothing to be heard
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.views = 0;
  }

  /** Take in what the kernel knows. */
  update(/** @type {Card | null | undefined} */ card) {
    if (!card?.run) return;
    const before = this.card.run;
    this.card = card;
    this.heard = this.at = Date.now();
    if (before && before.id === card.run.id && !before.ended && card.run.ended) notify(card.run);
    this.tell();
  }

  /** Take in a message: log and points in batches, or a fresh beginning. */
  message(/** @type {any} */ message) {
    this.heard = Date.now();
    if (message.type === "reset") {
      this.log.reset();
      this.curves.drop();
    } else if (message.type === "feed") {
      if (message.logs) this.log.take(message.logs);
      if (message.curves) this.curves.take(message.curves);
    } else if (message.type === "drop") {
      this.curves.drop(message.run);
    }
  }

  /** The kernel has ended: what is shown stays, and nothing can be asked any more. */
  end() {
    this.gone = true;
    this.tell();
  }

  tell() {
    for (const listener of this.listeners) listener();
  }

  /** Say that somebody looks, again and again until the function returned is called. */
  watch() {
    if (this.views++ === 0) this.send({ type: "hello" });
    const timer = setInterval(() => {
      if (!this.gone) this.send({ type: "ping" });
      this.tell();
    }, SIGN_OF_LIFE);
    return () => {
      clearInterval(timer);
      if (--this.views === 0 && !this.gone) this.send({ type: "bye" });
    };
  }
}

/**
 * A view of a run.
 * @param {CardStore} store
 * @param {{ shown?: "curves" | "log" | "both" }} [options] `shown` says what is seen at first
 * @returns {{ element: HTMLElement, stop: () => void }}
 */
export function cardView(store, { shown = "both" } = {}) {
  const head = h("div", { class: "t-head" });
  const say = h("span", { class: "t-sr", role: "status" });
  const progress = h("div", { class: "t-progress" });
  const facts = h("dl", { class: "t-facts" });
  const trouble = h("div", { class: "t-trouble", role: "alert" });
  const chart = chartView(store.curves, { until: () => store.card.run?.progress?.total ?? null });
  const log = logView(store.log);
  const compare = h("details", { class: "t-compare" });
  const left = h("section", { class: "t-part t-curves", "aria-label": "curves" }, chart.element, compare);
  const right = h("section", { class: "t-part t-logs", "aria-label": "log" }, log.element);
  const body = h("div", {}, left, right);
  function show(/** @type {string} */ word) {
    body.className = `t-body t-${word}`;
    left.hidden = word === "log";
    right.hidden = word === "curves";
  }
  const choice = segmented(["curves", "log", "both"], shown, "what is shown", show);
  show(shown);
  const actions = actionsView(store);
  const foot = h("div", { class: "t-foot" });
  const element = h(
    "div",
    { class: "t-card" },
    head,
    say,
    progress,
    trouble,
    h("div", { class: "t-line" }, facts, choice),
    body,
    actions.element,
    foot,
  );
  let told = "";

  function draw() {
    const { run } = store.card;
    if (!run) return;
    drawHead(head, run);
    drawProgress(progress, run, elapsed(store));
    drawFacts(facts, run);
    drawTrouble(trouble, store);
    drawCompare(compare, store);
    actions.draw();
    foot.textContent = run.folder;
    foot.title = "the run's folder";
    // Read aloud once for each state, not for each step.
    const now = `${run.name}: ${run.headline}${run.reason ? `, ${run.reason}` : ""}`;
    if (run.state !== told) {
      told = run.state;
      say.textContent = now;
    }
    chart.draw();
  }

  store.listeners.add(draw);
  const clock = setInterval(() => {
    const { run } = store.card;
    if (run && run.state === "running") drawProgress(progress, run, elapsed(store));
  }, 1000);
  const leave = store.watch();
  draw();
  return {
    element,
    stop() {
      store.listeners.delete(draw);
      clearInterval(clock);
      chart.stop();
      log.stop();
      leave();
    },
  };
}

/** How long the run works, by its own clock and ours since. */
function elapsed(/** @type {CardStore} */ store) {
  const { run } = store.card;
  if (!run || run.elapsed === null) return null;
  const since = run.state === "running" && !store.gone ? (Date.now() - store.at) / 1000 : 0;
  return run.elapsed + since;
}

function drawHead(/** @type {HTMLElement} */ head, /** @type {Facts} */ run) {
  const where = [run.host, run.chips].filter(Boolean).join(" · ");
  replaceIfNew(head, [run.name, run.id, run.state, run.headline, run.starts, where], () => [
    h("strong", { class: "t-name" }, run.name),
    h("span", { class: "t-id" }, run.id),
    h("span", { class: `t-state t-is-${run.state}` }, h("span", { "aria-hidden": "true", class: "t-shape" }, run.shape), run.headline),
    run.starts ? h("span", { class: "t-quiet" }, `expected to start ${run.starts}`) : "",
    h("span", { class: "t-push" }),
    h("span", { class: "t-where" }, where),
  ]);
}

function drawProgress(/** @type {HTMLElement} */ box, /** @type {Facts} */ run, /** @type {number | null} */ seconds) {
  const took = seconds === null ? "" : `${clock(seconds)} elapsed`;
  const at = run.progress;
  box.hidden = !at && !took;
  const percent = at?.fraction === null || at?.fraction === undefined ? null : Math.round(at.fraction * 1000) / 10;
  replaceIfNew(box, [at?.position, percent, at?.remaining, took, run.state], () => [
    percent === null
      ? ""
      : h(
          "div",
          { class: `t-bar t-is-${run.state}`, role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": Math.round(percent), "aria-label": "progress" },
          h("div", { style: `width:${percent}%` }),
        ),
    h("div", { class: "t-under" }, h("span", {}, at?.position ?? ""), h("span", { class: "t-push" }), h("span", {}, [took, at?.remaining].filter(Boolean).join(" · "))),
  ]);
}

function drawFacts(/** @type {HTMLElement} */ list, /** @type {Facts} */ run) {
  replaceIfNew(list, run.facts, () =>
    run.facts.map(({ label, value, detail }) => h("div", {}, h("dt", {}, label), h("dd", {}, value, detail ? h("span", { class: "t-quiet" }, ` ${detail}`) : ""))),
  );
}

function drawTrouble(/** @type {HTMLElement} */ box, /** @type {CardStore} */ store) {
  const run = /** @type {Facts} */ (store.card.run);
  const lines = [];
  if (store.gone) lines.push("The kernel has ended: this card shows the run as it was. The run itself goes on where it works; `%theseus watch` shows it again.");
  else if (!store.silent && !run.ended && Date.now() - store.heard > SILENCE) lines.push("The kernel does not answer: it is busy, or gone.");
  if (run.connection && !store.gone) lines.push(run.connection);
  const failed = run.state === "failed" || run.state === "lost";
  if (run.reason && !(run.state === "cancelled" && run.headline.includes(run.reason))) lines.push(run.reason);
  box.hidden = !lines.length;
  box.className = `t-trouble${failed ? " t-bad" : ""}`;
  replaceIfNew(box, lines, () => lines.map((text) => h("div", {}, text)));
}

/** Which other runs are drawn beside this one. */
function drawCompare(/** @type {HTMLElement} */ box, /** @type {CardStore} */ store) {
  const { others, compared } = store.card;
  box.hidden = !others.length;
  replaceIfNew(box, [others, compared], () => [
    h("summary", {}, compared.length ? `beside ${compared.length} other ${compared.length === 1 ? "run" : "runs"}` : "draw other runs beside"),
    ...others.map((one) => {
      const input = /** @type {HTMLInputElement} */ (
        h("input", {
          type: "checkbox",
          checked: compared.includes(one.id),
          onchange: () => store.send({ type: "compare", run: one.id, on: input.checked }),
        })
      );
      return h("label", {}, input, ` ${one.name} `, h("span", { class: "t-id" }, one.id), h("span", { class: "t-quiet" }, ` ${one.state}`));
    }),
  ]);
}

/** The buttons, what they ask back, and what became of them. */
function actionsView(/** @type {CardStore} */ store) {
  const cancel = button("Cancel", () => open("cancel"));
  const fetch = button("Fetch…", () => open("fetch"));
  const again = button("Resubmit", () => ask("resubmit"));
  const copy = button("Copy id", copyId);
  const code = button("Show code", () => open("code"));
  const bell = button("Notify me", async () => {
    await Notification.requestPermission();
    draw();
  });
  const panel = h("div", { class: "t-ask" });
  const answer = h("div", { class: "t-answer", role: "status" });
  const element = h("div", { class: "t-actions" }, h("div", { class: "t-buttons" }, cancel, fetch, again, copy, code, h("span", { class: "t-push" }), bell), panel, answer);
  let opened = "";
  /** @type {{ ok: boolean, text: string } | null} */
  let own = null;
  panel.hidden = true;
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });

  function ask(/** @type {string} */ action, /** @type {Record<string, any>} */ more = {}) {
    own = null;
    store.send({ type: action, ...more });
  }

  function close() {
    const from = { cancel, fetch, code }[opened];
    opened = "";
    panel.hidden = true;
    panel.replaceChildren();
    from?.focus();
  }

  function open(/** @type {string} */ what) {
    if (opened === what) return close();
    opened = what;
    const run = /** @type {Facts} */ (store.card.run);
    panel.hidden = false;
    if (what === "cancel") {
      const keep = button("Keep it running", close);
      const end = button("End this run", () => {
        close();
        ask("cancel");
      });
      end.classList.add("t-danger");
      panel.replaceChildren(h("span", {}, `End '${run.name}' on ${run.host}, with every process of it?`), end, keep);
      keep.focus();
    } else if (what === "fetch") {
      const folder = /** @type {HTMLInputElement} */ (h("input", { type: "text", placeholder: "a folder named after the run", size: "34" }));
      const all = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
      const go = button("Fetch", () => {
        close();
        ask("fetch", { to: folder.value, checkpoints: all.checked });
      });
      folder.addEventListener("keydown", (event) => {
        if (event.key === "Enter") go.click();
      });
      panel.replaceChildren(h("label", {}, "to ", folder), h("label", {}, all, " with checkpoints"), go, button("Close", close));
      folder.focus();
    } else {
      panel.replaceChildren(h("pre", { class: "t-code", tabindex: "0" }, run.code), button("Close", close));
    }
    return undefined;
  }

  async function copyId() {
    const { id } = /** @type {Facts} */ (store.card.run);
    try {
      await navigator.clipboard.writeText(id);
      own = { ok: true, text: `copied ${id}` };
    } catch {
      own = { ok: false, text: `the browser does not let a page copy: the id is ${id}` };
    }
    draw();
  }

  function draw() {
    const { run, answers } = store.card;
    if (!run) return;
    const busy = Object.values(answers).some((one) => one.busy);
    for (const [name, one] of /** @type {const} */ ([["cancel", cancel], ["fetch", fetch], ["resubmit", again]])) {
      one.hidden = !run.can.includes(name);
      one.toggleAttribute("disabled", store.gone || busy);
    }
    if (opened === "cancel" && !run.can.includes("cancel")) close();
    bell.hidden = run.ended || typeof Notification === "undefined" || Notification.permission !== "default";
    const last = own ?? Object.values(answers).pop();
    answer.hidden = !last?.text;
    answer.className = `t-answer${last && !last.ok && !("busy" in last && last.busy) ? " t-bad" : ""}`;
    if (answer.textContent !== (last?.text ?? "")) answer.textContent = last?.text ?? "";
  }

  return { element, draw };
}

/** Tell the reader, who may be elsewhere, that a run has ended. */
function notify(/** @type {Facts} */ run) {
  if (typeof Notification === "undefined" || Notification.permission !== "granted") return;
  try {
    new Notification(`${run.name}: ${run.headline}`, { body: run.reason || run.host, tag: `theseus ${run.id}` });
  } catch {
    // Some browsers have the word and allow it to service workers only: then the card says it.
  }
}

/** One of a few words. @param {string[]} words @param {string} chosen @param {string} label @param {(word: string) => void} take */
function segmented(words, chosen, label, take) {
  const buttons = words.map((word) =>
    h("button", { type: "button", "aria-pressed": String(word === chosen), onclick: () => pick(word) }, word),
  );
  function pick(/** @type {string} */ word) {
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one.textContent === word)));
    take(word);
  }
  return h("div", { class: "t-segments", role: "group", "aria-label": label }, ...buttons);
}

/** @type {WeakMap<HTMLElement, string>} */
const drawn = new WeakMap();

/** Replace the children of an element when what they show has changed; a click is never lost to it. */
function replaceIfNew(/** @type {HTMLElement} */ box, /** @type {unknown} */ key, /** @type {() => (Node | string)[]} */ make) {
  const text = JSON.stringify(key);
  if (drawn.get(box) === text) return;
  drawn.set(box, text);
  box.replaceChildren(...make());
}

function button(/** @type {string} */ text, /** @type {() => void} */ onclick) {
  return h("button", { type: "button", onclick }, text);
}

/** `8 s`, `2 min 10 s`, `3 h 5 min`. @param {number} seconds */
function clock(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
