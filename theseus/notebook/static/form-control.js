// One row of a form: a control that fits the type of its key.
import { h } from "./dom.js";

const TYPING = 250; // ms without a key until what is typed is sent
const UNSET = "unset";

let rows = 0;

/** A key's row: name, control, marks, help. */
export class Control {
  /**
   * @param {any} field @param {any} cell
   * @param {{set: (text: string | null, burst: string) => void, reset: () => void}} acts
   */
  constructor(field, cell, acts) {
    this.field = field;
    this.acts = acts;
    this.name = field.key.split(".").pop();
    this.searched = `${field.key} ${field.help || ""} ${field.owners}`.toLowerCase();
    this.id = `theseus-row-${++rows}`;
    this.burst = 0;
    this.timer = 0;
    this.dirty = false; // typed, and not what the configuration holds
    this.sent = /** @type {string | null | undefined} */ (undefined);
    this.problem = h("div", { class: "t-problem", id: `${this.id}-p`, hidden: true });
    this.resolved = h("div", { class: "t-resolved", hidden: true });
    this.mark = h("span", { class: "t-mark", "aria-hidden": "true" });
    this.back = /** @type {HTMLButtonElement} */ (
      h("button", { type: "button", class: "t-back", onclick: () => this.restore() }, "↺")
    );
    this.slot = h("div", { class: "t-slot" });
    const help = field.help || "";
    this.element = h(
      "div",
      { class: "t-row", "data-key": field.key },
      h("label", { for: this.id, class: "t-name", title: about(field) }, this.name),
      h("div", { class: "t-control" }, this.slot, this.mark, this.back),
      h("div", { class: "t-help", title: about(field) }, help),
      h("div", { class: "t-type", title: about(field) }, kind(field)),
      h("div", { class: "t-notes" }, this.resolved, this.problem),
    );
    this.input = /** @type {any} */ (null);
    this.show(cell, true);
  }

  /** Show what the key holds; what is being typed stays. */
  show(/** @type {any} */ cell, first = false) {
    this.cell = cell;
    const shape = this.shape(cell);
    if (first || shape !== this.made) {
      const had = !first && this.focused();
      this.make(shape);
      if (had) this.input.focus();
    }
    const same = this.read() === cell.text || (this.sent !== undefined && this.read() === this.sent);
    if (!this.focused() || !this.dirty) this.put(cell);
    else if (same) this.dirty = false; // it is in the configuration, if spelt in another way
    this.refused("");
    this.marks();
  }

  /** Say why what was typed is not in the configuration; an empty text takes it back. */
  refused(/** @type {string} */ message) {
    this.error = message;
    if (message) this.dirty = true;
    this.marks();
  }

  /** Say what stands in the way elsewhere, such as a size that does not divide another. */
  warn(/** @type {string} */ message) {
    if (message === (this.warning || "")) return;
    this.warning = message;
    this.marks();
  }

  marks() {
    const { cell, field } = this;
    const problem = this.error || cell.problem || this.warning || "";
    const state = this.error ? "t-is-bad" : problem ? "t-is-warn" : "";
    this.element.classList.toggle("t-is-changed", Boolean(cell.changed));
    this.element.classList.toggle("t-is-missing", Boolean(cell.missing));
    this.element.classList.toggle("t-is-bad", state === "t-is-bad");
    this.mark.textContent = this.error ? "✕" : cell.missing ? "◇" : problem ? "⚠" : cell.changed ? "●" : "";
    const shortened = problem.replace(`${field.key}: `, "");
    const why = shortened.startsWith(`${field.key} (`) ? shortened.slice(shortened.indexOf("): ") + 3) : shortened;
    this.problem.textContent = cell.missing && !this.error ? `no value yet, ${why}` : why;
    this.problem.hidden = !problem;
    this.resolved.textContent = cell.value === undefined ? "" : `= ${cell.value}`;
    this.resolved.hidden = cell.value === undefined;
    const to = field.default === undefined ? "no value" : field.default === null ? UNSET : field.default || '""';
    this.back.title = `reset to ${to}`;
    this.back.setAttribute("aria-label", `reset ${field.key} to ${to}`);
    this.back.disabled = !(cell.changed || this.error);
    this.input.setAttribute("aria-invalid", String(Boolean(this.error || cell.problem)));
    if (problem) this.input.setAttribute("aria-describedby", this.problem.id);
    else this.input.removeAttribute("aria-describedby");
  }

  brief() {
    const { cell } = this;
    if (cell.missing) return "◇";
    const text = cell.value ?? cell.text ?? UNSET;
    return text.length > 24 ? `${text.slice(0, 23)}…` : text || '""';
  }

  focus() {
    this.input.focus();
  }

  focused() {
    const active = /** @type {Document | ShadowRoot} */ (this.element.getRootNode()).activeElement;
    return Boolean(active && this.slot.contains(active));
  }

  isDraft() {
    return this.dirty && this.made !== "switch" && this.made !== "choice";
  }

  typed() {
    return this.input.value;
  }

  /** Put back what was being typed, not sent yet. */
  draft(/** @type {string} */ text) {
    this.input.value = text;
    this.dirty = true;
    this.refused("typed, not taken yet: Enter takes it");
  }

  restore() {
    clearTimeout(this.timer);
    this.dirty = false;
    this.refused("");
    if (this.cell.changed) this.acts.reset();
    else this.put(this.cell);
  }

  // The control

  /** Which control shows a value: a `${…}` or a missing one cannot be a switch. */
  shape(/** @type {any} */ cell) {
    const free = cell.value !== undefined || (cell.text || "").includes("${");
    const { control, optional } = this.field;
    if (free) return "free";
    if (control === "switch") return optional || cell.missing ? "choice" : "switch";
    if (control === "choice") return "choice";
    return "text";
  }

  make(/** @type {string} */ shape) {
    this.made = shape;
    const { field } = this;
    const shared = { id: this.id, title: about(field) };
    if (shape === "switch") {
      this.input = h("input", {
        ...shared, type: "checkbox", role: "switch",
        onchange: () => this.send(String(this.input.checked)),
      });
      this.slot.replaceChildren(this.input, (this.word = h("span", { class: "t-word" })));
      return;
    }
    if (shape === "choice") {
      const choices = field.control === "switch" ? ["true", "false"] : field.choices;
      this.input = h(
        "select",
        {
          ...shared,
          onchange: () => this.send(this.input.selectedOptions[0].dataset.none ? null : this.input.value),
        },
        h("option", { value: "", hidden: true, disabled: true, "data-missing": "1" }, "choose…"),
        field.optional && h("option", { value: "", "data-none": "1" }, UNSET),
        ...choices.map((/** @type {string} */ choice) => h("option", { value: choice }, choice || '""')),
      );
      this.slot.replaceChildren(this.input);
      return;
    }
    this.makeText(shared);
  }

  makeText(/** @type {any} */ shared) {
    const { field } = this;
    const number = this.made === "text" && ["int", "float"].includes(field.control);
    this.input = h("input", {
      ...shared, type: "text", autocomplete: "off", spellcheck: "false",
      class: number ? "t-number" : "t-text",
      inputmode: number ? "decimal" : null,
      oninput: () => this.typing(),
      onfocus: () => { this.burst += 1; },
      onblur: () => this.commit(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
    });
    const parts = [this.input];
    if (number) parts.push(h("span", { class: "t-steps" }, this.stepper("−", -1), this.stepper("+", 1)));
    if (number && (field.log || (field.ge !== undefined && field.le !== undefined))) {
      parts.push((this.slider = this.makeSlider()));
    } else this.slider = null;
    /** @type {any} */
    this.none = null; // the button of an optional value
    if (field.optional) {
      this.none = h("button", { type: "button", class: "t-none", title: "unset: no value",
        "aria-label": `unset ${field.key}`, onclick: () => this.send(null) }, "unset");
      parts.push(this.none);
    }
    this.slot.replaceChildren(...parts);
  }

  stepper(/** @type {string} */ mark, /** @type {number} */ way) {
    const word = this.field.log ? (way > 0 ? "double" : "halve") : way > 0 ? "more" : "less";
    return h("button", { type: "button", tabindex: "-1", title: `${word} (arrow keys)`,
      "aria-label": `${word}: ${this.field.key}`, onclick: () => this.step(way) }, mark);
  }

  makeSlider() {
    const scale = scaleOf(this.field);
    return /** @type {HTMLInputElement} */ (h("input", {
      type: "range", class: "t-slider", min: "0", max: String(scale.steps), step: "1", tabindex: "-1",
      "aria-label": `${this.field.key}, slider`,
      oninput: () => {
        this.input.value = written(scale.at(Number(this.slider.value)), this.field);
        this.typing();
      },
      onchange: () => this.commit(),
    }));
  }

  put(/** @type {any} */ cell) {
    this.dirty = false;
    this.sent = undefined;
    if (this.made === "switch") {
      this.input.checked = cell.text === "true";
      this.word.textContent = this.input.checked ? "on" : "off";
    } else if (this.made === "choice") {
      const wanted = [...this.input.options].findIndex((one) =>
        cell.missing ? one.dataset.missing : cell.text === null ? one.dataset.none
          : !one.dataset.missing && !one.dataset.none && one.value === cell.text);
      this.input.selectedIndex = Math.max(wanted, 0);
    } else {
      this.input.value = cell.text ?? "";
      this.input.placeholder = cell.missing ? "needs a value" : cell.text === null ? UNSET : "empty";
      if (this.none) this.none.disabled = cell.text === null;
      this.slide();
    }
  }

  slide() {
    if (!this.slider) return;
    const value = Number(this.read()?.replaceAll("_", ""));
    this.slider.disabled = !Number.isFinite(value);
    if (Number.isFinite(value)) this.slider.value = String(scaleOf(this.field).of(value));
  }

  read() {
    if (this.made === "switch") return String(this.input.checked);
    if (this.made === "choice") return this.input.selectedOptions[0]?.dataset.none ? null : this.input.value;
    if (this.input.value === "" && this.cell.text === null) return null;
    return this.input.value;
  }

  typing() {
    this.dirty = true;
    this.slide();
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.commit(), TYPING);
  }

  commit() {
    clearTimeout(this.timer);
    if (!this.dirty) return;
    const text = this.read();
    if (text === this.cell.text && !this.error) this.dirty = false;
    else if (text !== this.sent) this.send(text);
    if (!this.dirty && !this.focused()) this.put(this.cell);
  }

  send(/** @type {string | null} */ text) {
    this.sent = text;
    if (text === null || this.made === "switch" || this.made === "choice") this.dirty = false;
    const number = this.field.control === "int" || this.field.control === "float";
    // An emptied number that may be unset is unset; an emptied text is an empty text.
    const meant = text === "" && this.field.optional && number ? null : text;
    this.acts.set(meant, `${this.id}.${this.burst}`);
  }

  key(/** @type {KeyboardEvent} */ event) {
    const number = this.field.control === "int" || this.field.control === "float";
    if (event.key === "Enter") {
      this.sent = undefined;
      this.dirty = true;
      this.commit();
      this.burst += 1;
    } else if (event.key === "Escape" && this.dirty) {
      clearTimeout(this.timer);
      this.put(this.cell);
      this.refused("");
      event.stopPropagation();
    } else if (number && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      this.step(event.key === "ArrowUp" ? 1 : -1);
    }
  }

  step(/** @type {number} */ way) {
    const { field } = this;
    const now = Number((this.input.value || field.default || "0").replaceAll("_", ""));
    if (!Number.isFinite(now)) return;
    let next;
    if (field.log && now) next = way > 0 ? now * 2 : now / 2;
    else if (field.control === "int") next = now + way;
    else next = now + way * stepOf(now, field);
    if (field.control === "int") next = Math.round(next);
    if (field.ge !== undefined) next = Math.max(next, field.ge);
    if (field.le !== undefined) next = Math.min(next, field.le);
    this.input.value = written(next, field);
    this.typing();
  }
}

function about(/** @type {any} */ field) {
  const lines = [field.key, field.help, `${kind(field)} · ${field.owners}`];
  if (field.default !== undefined) lines.push(`default ${field.default ?? UNSET}`);
  return lines.filter(Boolean).join("\n");
}

function kind(/** @type {any} */ field) {
  const bounds = [];
  if (field.ge !== undefined) bounds.push(`≥ ${field.ge}`);
  if (field.le !== undefined) bounds.push(`≤ ${field.le}`);
  return [field.choices ? "one of" : field.type, field.choices ? field.choices.length : "", ...bounds]
    .filter(Boolean).join(" ");
}

/** A tenth of the value's size, as a power of ten: 0.95 moves by 0.01, 30 by 1. */
function stepOf(/** @type {number} */ now, /** @type {any} */ field) {
  const size = Math.abs(now) || Math.abs(Number(field.default)) || 0.1;
  const bounded = field.ge !== undefined && field.le !== undefined;
  const step = 10 ** (Math.floor(Math.log10(size)) - 1);
  return bounded ? Math.min(step * 1, (field.le - field.ge) / 20) : step;
}

/** @param {number} value @param {any} field */
function written(value, field) {
  if (field.control === "int") {
    const text = String(Math.round(value));
    return text.length > 4 ? text.replace(/\B(?=(\d{3})+$)/g, "_") : text;
  }
  const text = String(Number(value.toPrecision(field.log ? 2 : 6)));
  return text.includes("e") || text.includes(".") ? text : `${text}.0`;
}

/**
 * The scale of a slider: powers of two for whole numbers on a log scale, tenths of a decade for
 * others, hundredths of the range between two bounds.
 *
 * @param {any} field
 */
function scaleOf(field) {
  if (field.log) {
    const centre = Number((field.default || "1").replaceAll("_", "")) || 1;
    const base = field.control === "int" ? 2 : 10 ** 0.1;
    const log = (/** @type {number} */ value) => Math.log(value) / Math.log(base);
    const reach = field.control === "int" ? 8 : 30;
    let low = Math.round(log(centre)) - reach;
    let high = Math.round(log(centre)) + reach;
    if (field.ge > 0) low = Math.max(low, Math.ceil(log(field.ge)));
    if (field.control === "int") low = Math.max(low, 0);
    if (field.le > 0) high = Math.min(high, Math.floor(log(field.le)));
    return {
      steps: high - low,
      at: (/** @type {number} */ step) => base ** (low + step),
      of: (/** @type {number} */ value) =>
        value > 0 ? Math.min(Math.max(Math.round(log(value)) - low, 0), high - low) : 0,
    };
  }
  const range = field.le - field.ge;
  const steps = field.control === "int" ? Math.min(range, 100) : 100;
  return {
    steps,
    at: (/** @type {number} */ step) => field.ge + (range * step) / steps,
    of: (/** @type {number} */ value) => Math.round(((value - field.ge) / range) * steps),
  };
}
