// The form of a configuration. What is shown comes from the kernel as plain data; what is typed
// goes there at once. Nothing here knows what a value means.
import { h, keepKeys } from "./dom.js";
import { Control } from "./form-control.js";
import { codePanel } from "./form-code.js";

const PATIENCE = 1500; // ms until an edit that nobody answered is said to wait
const OPEN_ROWS = 24; // groups are open at first as far as so many rows

/**
 * @typedef {{key: string, control: string, type: string, owners: string, help?: string,
 *   optional?: boolean, choices?: string[], ge?: number, le?: number, log?: boolean,
 *   default?: string | null}} Field
 * @typedef {{text: string | null, value?: string, changed?: boolean, missing?: boolean,
 *   problem?: string}} Cell
 * @typedef {{name: string, text: string, note?: string, key?: string}} Figure
 */

/** One view of a form. */
export class Form {
  /** @param {HTMLElement} root @param {any} state @param {(message: any) => void} send */
  constructor(root, state, send) {
    this.root = root;
    this.send = send;
    this.number = 0;
    this.waiting = new Map(); // id → key
    this.timer = 0;
    root.classList.add("jp-theseus", "jp-theseus-form");
    keepKeys(root);
    this.build(state);
  }

  /** Begin anew with a whole form; what is being typed stays in its control. */
  build(/** @type {any} */ state) {
    const kept = this.controls ? this.drafts() : [];
    const focused = this.focusedKey();
    this.state = state;
    this.cells = { ...(state.cells || {}) };
    /** @type {Map<string, any>} */
    this.controls = new Map();
    this.groups = [];
    this.waiting.clear();
    this.root.replaceChildren(
      this.header(),
      ...(state.keys.length ? [this.bar(), this.body(), this.code.element, this.foot()] : [empty()]),
    );
    if (!state.keys.length) return;
    this.openSome();
    this.counts();
    this.figures(state.figures || []);
    for (const [key, text, field] of kept) {
      const control = this.controls.get(key);
      if (control && control.field.type === field.type) control.draft(text);
    }
    if (focused && this.controls.has(focused)) this.controls.get(focused).focus();
  }

  /** Take a message of the kernel. */
  receive(/** @type {any} */ message) {
    if (message.id !== undefined && message.id !== null) this.answered(message.id);
    if (message.type === "form") {
      this.build(message.form);
    } else if (message.type === "cells") {
      this.state.revision = message.revision;
      this.state.undo = message.undo;
      this.state.redo = message.redo;
      for (const [key, cell] of Object.entries(message.cells)) {
        this.cells[key] = cell;
        this.controls.get(key)?.show(cell);
      }
      if (message.key) this.controls.get(message.key)?.refused("");
      this.counts();
      if (message.figures) this.figures(message.figures);
      if (this.code.open && Object.keys(message.cells).length) this.send({ type: "code" });
    } else if (message.type === "refused") {
      const control = this.controls.get(message.key);
      if (control) control.refused(message.message);
      else this.say(message.message, true);
    } else if (message.type === "figures") {
      this.figures(message.figures);
    } else if (message.type === "code") {
      this.code.show(message);
    } else if (message.type === "problem") {
      this.say(message.message, true, message.details);
    }
  }

  /** Say that nobody answers any more. */
  dead() {
    this.say("The kernel of this form is gone. Run its cell again to edit.", true);
    this.root.classList.add("t-dead");
  }

  /** @param {any} message */
  ask(message) {
    const id = ++this.number;
    this.waiting.set(id, message.key || "");
    this.send({ ...message, id, generation: this.state.generation });
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.late(), PATIENCE);
  }

  late() {
    if (this.waiting.size) this.say("The kernel is busy: this is taken when its cell ends.", false);
  }

  answered(/** @type {number} */ id) {
    this.waiting.delete(id);
    if (!this.waiting.size) {
      clearTimeout(this.timer);
      this.say("");
    }
  }

  say(/** @type {string} */ text, bad = false, /** @type {string | null} */ details = null) {
    if (!this.status) return;
    this.status.classList.toggle("t-bad", bad);
    this.status.replaceChildren(text);
    if (details) {
      this.status.append(h("details", {}, h("summary", {}, "details"), h("pre", {}, details)));
    }
  }

  // The parts

  header() {
    const state = this.state;
    this.code = codePanel(() => this.send({ type: "code" }));
    return h(
      "div",
      { class: "t-head" },
      h("strong", {}, state.name || "no job yet"),
      state.job && h("span", { class: "t-muted" }, state.job),
      h("span", { class: "t-push" }),
      state.root && h("span", { class: "t-muted t-root", title: state.root }, `root ${state.root}`),
      state.keys.length ? this.code.button : null,
    );
  }

  bar() {
    const search = () => this.filter();
    this.search = /** @type {HTMLInputElement} */ (
      h("input", {
        type: "search",
        placeholder: "search keys and helps",
        "aria-label": "search keys and helps",
        oninput: search,
      })
    );
    this.only = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", onchange: search }));
    this.count = h("span", { class: "t-count", role: "status" });
    this.undo = button("↶", "undo", () => this.ask({ type: "undo" }));
    this.redo = button("↷", "redo", () => this.ask({ type: "redo" }));
    /** @type {any} */
    this.reset = h("button", { type: "button", onclick: () => this.ask({ type: "reset" }) }, "reset all");
    return h(
      "div",
      { class: "t-bar" },
      this.search,
      h("label", { class: "t-only" }, this.only, " changed only"),
      this.count,
      h("span", { class: "t-push" }),
      this.undo,
      this.redo,
      this.reset,
    );
  }

  body() {
    const body = h("div", { class: "t-body" });
    /** @type {Map<string, any>} */
    const groups = new Map();
    for (const field of this.state.keys) {
      const [first, ...rest] = field.key.split(".");
      const name = rest.length ? first : "";
      if (!groups.has(name)) groups.set(name, this.group(name, body));
      const group = groups.get(name);
      const control = new Control(field, this.cells[field.key], {
        set: (/** @type {string | null} */ text, /** @type {string} */ burst) =>
          this.ask({ type: "set", key: field.key, text, burst }),
        reset: () => this.ask({ type: "reset", key: field.key }),
      });
      const inner = rest.slice(0, -1).join(".");
      if (inner && inner !== group.inner) {
        group.rows.append(h("div", { class: "t-sub", role: "presentation" }, inner));
      }
      group.inner = inner;
      group.rows.append(control.element);
      group.controls.push(control);
      this.controls.set(field.key, control);
    }
    this.nothing = h("div", { class: "t-nothing", hidden: true }, "no key matches");
    body.append(this.nothing);
    return body;
  }

  group(/** @type {string} */ name, /** @type {HTMLElement} */ body) {
    const digest = h("span", { class: "t-digest t-muted" });
    const rows = h("div", { class: "t-rows" });
    const element = /** @type {HTMLDetailsElement} */ (
      h("details", { class: "t-group" }, h("summary", {}, h("b", {}, name || "keys"), digest), rows)
    );
    body.append(element);
    const group = { name, element, rows, digest, controls: /** @type {any[]} */ ([]), inner: "" };
    this.groups.push(group);
    return group;
  }

  foot() {
    this.readouts = h("div", { class: "t-figures", role: "status", "aria-label": "what it comes to" });
    this.status = h("div", { class: "t-status", role: "status" });
    return h("div", { class: "t-foot" }, this.readouts, this.status);
  }

  // What changes

  openSome() {
    let rows = 0;
    const wanted = (/** @type {any} */ cell) => cell.changed || cell.missing || cell.problem;
    for (const group of this.groups) {
      const called = group.controls.some((one) => wanted(one.cell));
      if (called) {
        group.element.open = true;
        rows += group.controls.length;
      }
    }
    for (const group of this.groups) {
      if (!group.element.open && (rows === 0 || rows + group.controls.length <= OPEN_ROWS)) {
        group.element.open = true;
        rows += group.controls.length;
      }
    }
  }

  counts() {
    const cells = Object.values(this.cells);
    const changed = cells.filter((cell) => cell.changed).length;
    const missing = cells.filter((cell) => cell.missing).length;
    const parts = [`${changed} of ${cells.length} changed`];
    if (missing) parts.push(`${missing} without a value`);
    this.count.textContent = parts.join(", ");
    this.count.classList.toggle("t-warn", missing > 0);
    this.undo.disabled = !this.state.undo;
    this.redo.disabled = !this.state.redo;
    this.reset.disabled = !changed;
    for (const group of this.groups) this.digest(group);
    if (this.only.checked) this.filter();
  }

  digest(/** @type {any} */ group) {
    const marked = group.controls.filter((one) => one.cell.changed || one.cell.missing);
    const shown = (marked.length ? marked : group.controls).slice(0, 4);
    const told = shown.map((one) => `${one.name} ${one.brief()}`);
    if (group.controls.length > shown.length) told.push("…");
    group.digest.textContent = told.join(" · ");
    const count = marked.length ? ` ●${marked.length}` : "";
    group.digest.dataset.count = count;
  }

  figures(/** @type {Figure[]} */ figures) {
    this.readouts.replaceChildren(
      ...figures.map((one) =>
        h(
          "span",
          { title: one.note, class: one.key ? "t-figure t-warn" : "t-figure" },
          one.key ? `⚠ ${one.text}` : one.text,
        ),
      ),
    );
    const marked = new Map(figures.filter((one) => one.key).map((one) => [one.key, one.text]));
    for (const [key, control] of this.controls) control.warn(marked.get(key) || "");
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = this.only.checked;
    let any = false;
    for (const group of this.groups) {
      let shown = 0;
      for (const control of group.controls) {
        const fits = words.every((word) => control.searched.includes(word));
        const cell = control.cell;
        const visible = fits && (!only || cell.changed || cell.missing || control.focused());
        control.element.hidden = !visible;
        if (visible) shown += 1;
      }
      group.element.hidden = shown === 0;
      if (words.length || only) {
        if (group.before === undefined) group.before = group.element.open;
        group.element.open = true;
      } else if (group.before !== undefined) {
        group.element.open = group.before;
        group.before = undefined;
      }
      any = any || shown > 0;
    }
    this.root.classList.toggle("t-filtered", words.length > 0 || only);
    this.nothing.hidden = any;
    this.nothing.textContent = words.length ? "no key matches" : "nothing is changed";
  }

  drafts() {
    return [...this.controls.values()]
      .filter((control) => control.isDraft())
      .map((control) => [control.field.key, control.typed(), control.field]);
  }

  focusedKey() {
    if (!this.controls) return null;
    for (const [key, control] of this.controls) if (control.focused()) return key;
    return null;
  }
}

function button(/** @type {string} */ mark, /** @type {string} */ name, /** @type {() => void} */ act) {
  return /** @type {HTMLButtonElement} */ (
    h("button", { type: "button", title: name, "aria-label": name, onclick: act }, mark)
  );
}

function empty() {
  return h(
    "div",
    { class: "t-nothing" },
    "Choose a job first: ",
    h("code", {}, 'q.build("gpt/train/pretrain", "train-gpt")'),
  );
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const root = h("div");
  el.append(root);
  const form = new Form(root, model.get("form"), (message) => model.send(message));
  const listen = (/** @type {any} */ message) => form.receive(message);
  const gone = () => form.dead();
  model.on("msg:custom", listen);
  model.on("comm_live_update", gone);
  model.send({ type: "hello", revision: form.state.revision });
  return () => {
    model.off("msg:custom", listen);
    model.off("comm_live_update", gone);
  };
}

export default { render };
