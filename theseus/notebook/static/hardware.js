// The hardware widget: what is asked for, what of it fits, and where it could run.

import { h, keepKeys } from "./dom.js";
import { chipPicker } from "./chip_picker.js";
import { barOf, meshOf } from "./memory_bar.js";

/** @typedef {[any, string, string]} Offer a value, why it cannot be chosen, what else to say */
/**
 * @typedef {{
 *   state: () => Record<string, any>,
 *   send: (message: Record<string, any>) => void,
 * }} Wire
 */

const NAMES = ["asked", "offered", "memory", "ways", "hosts", "code", "catalogue"];
const AGAIN = 1000; // milliseconds that a message of success stays at least

/**
 * Put the widget into an element. It takes plain values, not a model: a page without a kernel can
 * use it too.
 *
 * @param {HTMLElement} root
 * @param {Wire} wire
 * @returns {{ update: (name: string) => void, told: (message: any) => void }}
 */
export function hardware(root, wire) {
  root.classList.add("jp-theseus", "jp-theseus-hardware");
  keepKeys(root);
  const choose = (name, value) => {
    say("");
    wire.send({ type: "set", name, value });
  };
  const picker = chipPicker(() => wire.state(), (chips) => choose("chips", chips));
  const parts = {
    head: h("div", { class: "hw-head" }),
    request: h("div", { class: "hw-grid" }),
    split: h("div", { class: "hw-split" }),
    said: h("div", { class: "hw-said", role: "alert" }),
    memory: h("section", { class: "hw-memory", "aria-label": "Memory of each device" }),
    hosts: h("section", { class: "hw-hosts", "aria-label": "Hosts" }),
    code: codePart(wire),
  };
  root.replaceChildren(
    parts.head,
    h("section", { class: "hw-request", "aria-label": "Request" }, parts.request, parts.split),
    parts.said,
    parts.memory,
    parts.hosts,
    parts.code.element,
  );

  /** @param {string} text @param {boolean} [good] */
  function say(text, good = false) {
    parts.said.textContent = text;
    parts.said.classList.toggle("good", good);
  }

  /**
   * Draw a part again, leaving the focus where it was.
   *
   * @param {HTMLElement} part
   * @param {(Node | null)[]} children
   */
  function draw(part, children) {
    const active = part.getRootNode() instanceof ShadowRoot
      ? /** @type {ShadowRoot} */ (part.getRootNode()).activeElement : document.activeElement;
    const key = active && part.contains(active) ? active.getAttribute("data-key") : null;
    part.replaceChildren(...children.filter((child) => child !== null));
    if (key) /** @type {any} */ (part.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus();
  }

  function all() {
    const state = wire.state();
    draw(parts.head, head(state));
    draw(parts.request, request(state, choose, picker));
    draw(parts.split, split(state, choose));
    memory();
    hosts();
    parts.code.update();
  }

  function memory() {
    const state = wire.state();
    draw(parts.memory, memoryPart(state, wire));
    draw(parts.head, head(state));
    picker.update();
  }

  function hosts() {
    draw(parts.hosts, hostsPart(wire.state(), wire));
  }

  all();
  return {
    update(name) {
      if (name === "hosts") hosts();
      else if (name === "code") parts.code.update();
      else if (name === "memory" || name === "ways") memory();
      else all();
    },
    told(message) {
      if (message.type === "problem") {
        say(message.message);
        all(); // a control goes back to what is
      } else {
        parts.code.told(message);
      }
    },
  };
}

/** @param {Record<string, any>} state */
function head(state) {
  const { asked, memory } = state;
  const chips = asked.chips.join(" or ") || (asked.gpus ? "any chip" : "processors only");
  const count = asked.gpus ? ` × ${asked.gpus}` : "";
  return [
    h("strong", {}, "Hardware"),
    h("span", { class: "hw-what" }, `${chips}${count}`),
    h("span", { class: "hw-muted hw-run", title: asked.job }, asked.name),
    verdict(memory),
  ];
}

const MARKS = { fits: "✓", tight: "▲", "does not fit": "✕" };

/** @param {Record<string, any>} memory */
function verdict(memory) {
  let word = memory.word === "unknown" ? "" : memory.word;
  let mark = MARKS[word] ?? "";
  let kind = word.replaceAll(" ", "-");
  if (memory.problem) [word, mark, kind] = ["cannot be trained so", "✕", "does-not-fit"];
  else if (memory.status === "estimating…") [word, mark, kind] = ["estimating…", "", "busy"];
  return h("span", { class: `hw-verdict ${kind}`, role: "status" },
    mark ? h("span", { "aria-hidden": "true" }, `${mark} `) : null, word);
}

/**
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [hint]
 */
function field(label, control, hint = "") {
  return h("label", { class: "hw-field", title: hint || null }, h("span", {}, label), control);
}

/**
 * A list of values of which the impossible ones say why.
 *
 * @param {string} key
 * @param {Offer[]} offers
 * @param {any} value
 * @param {(value: any) => void} chosen
 * @param {string} empty how "no value" reads
 */
function list(key, offers, value, chosen, empty) {
  const known = offers.map(([one]) => one);
  const values = known.includes(value) ? offers : [[value, "", ""], ...offers];
  const select = h("select", {
    "data-key": key,
    onchange: (event) => {
      const index = event.target.selectedIndex;
      chosen(values[index][0]);
    },
  }, ...values.map(([one, why, note]) => h("option", {
    value: String(one), disabled: Boolean(why) && one !== value, selected: one === value,
    title: why || null,
  }, `${one ?? empty}${why && one !== value ? ` — ${why}` : note ? ` (${note})` : ""}`)));
  return select;
}

/**
 * @param {string} key
 * @param {string | number | null} value
 * @param {(text: string) => void} chosen
 * @param {Record<string, any>} [attributes]
 */
function entry(key, value, chosen, attributes = {}) {
  const input = /** @type {HTMLInputElement} */ (h("input", {
    "data-key": key, type: "text", placeholder: "any", value: value ?? "", size: 6, ...attributes,
  }));
  input.addEventListener("change", () => chosen(input.value.trim()));
  return input;
}

const whole = (text) => (text === "" ? null : /^\d+$/.test(text) ? Number(text) : text);

/** @param {Record<string, any>} state @param {(name: string, value: any) => void} choose */
function request(state, choose, picker) {
  const { asked, memory, hosts } = state;
  const offered = open(state.offered, memory);
  const counts = /** @type {Offer[]} */ ([[null, "", ""], [0, "", ""], ...offered.gpus]);
  const clusters = [...new Set([...hosts.clusters, ...asked.clusters])];
  return [
    picker.element,
    field("count", count(counts, asked.gpus, choose), "chips in all, over all nodes"),
    field("nodes", entry("nodes", asked.nodes, (text) => choose("nodes", whole(text) ?? 1),
      { inputmode: "numeric", size: 3 }), "machines that the chips are spread over, evenly"),
    field("CPUs", entry("cpus", asked.cpus, (text) => choose("cpus", whole(text)),
      { inputmode: "numeric", size: 4 }), "processor cores per node"),
    field("memory", entry("memory", asked.memory, (text) => choose("memory", text)),
      "main memory per node, such as 64G"),
    clusters.length ? clusterPart(clusters, asked, choose) : null,
  ];
}

/**
 * Out of what cannot be trained every way is open: it may take two steps.
 *
 * @param {Record<string, Offer[]>} offered
 * @param {Record<string, any>} memory
 */
function open(offered, memory) {
  if (!memory.problem) return offered;
  return Object.fromEntries(Object.entries(offered).map(([name, offers]) =>
    [name, offers.map(([value, , note]) => /** @type {Offer} */ ([value, "", note]))]));
}

/** A list of counts, with a way to write another one. */
function count(offers, value, choose) {
  const box = h("span", { class: "hw-count" });
  const select = /** @type {HTMLSelectElement} */ (
    list("gpus", offers, value, (chosen) => choose("gpus", chosen), "any"));
  select.append(h("option", { value: "other" }, "other…"));
  select.addEventListener("change", (event) => {
    if (select.value !== "other") return;
    event.stopImmediatePropagation();
    const input = entry("gpus", "", (text) => choose("gpus", whole(text)),
      { placeholder: "how many", inputmode: "numeric" });
    box.replaceChildren(input);
    input.focus();
  }, { capture: true });
  box.append(select);
  return box;
}

function clusterPart(clusters, asked, choose) {
  const boxes = clusters.map((name) => {
    const chosen = asked.clusters.includes(name);
    return h("label", { class: "hw-check" }, h("input", {
      type: "checkbox", checked: chosen, "data-key": `cluster ${name}`,
      disabled: asked.avoid.includes(name),
      onchange: () => choose("clusters",
        chosen ? asked.clusters.filter((one) => one !== name) : [...asked.clusters, name]),
    }), name);
  });
  return h("fieldset", { class: "hw-field hw-wide" },
    h("legend", {}, asked.clusters.length ? "clusters" : "clusters (any)"), ...boxes);
}

/** @param {Record<string, any>} state @param {(name: string, value: any) => void} choose */
function split(state, choose) {
  const { asked, memory } = state;
  const offered = open(state.offered, memory);
  const reasons = [];
  const controls = [
    buttons("tp", "tensor parallel", offered.tp, asked.tp, choose, reasons,
      "tp: how many chips share one copy of each layer"),
    flag("fsdp", offered.fsdp, asked.fsdp, choose, reasons,
      "parameters, gradients and optimizer state are spread over the other chips"),
    flag("zero", offered.zero, asked.zero, choose, reasons,
      "gradients and optimizer state are spread, parameters are not (ZeRO)"),
  ];
  if (asked.settable.includes("training.remat")) {
    controls.push(buttons("remat", "remat", offered.remat, asked.remat, choose, reasons,
      "what the backward pass computes again: nothing, all but matrix products, whole blocks"));
  }
  if (asked.settable.includes("training.per_device_batch_size")) {
    controls.push(field("micro-batch",
      list("rows", offered.rows, asked.rows, (value) => choose("rows", value), "auto"),
      "rows on each device at a time; auto: the most that divides, up to 8"));
  }
  return [
    h("div", { class: "hw-grid" }, ...controls),
    reasons.length ? h("ul", { class: "hw-reasons" },
      ...reasons.map((text) => h("li", {}, text))) : null,
    meshOf(memory, asked),
  ];
}

/**
 * @param {string} key
 * @param {string} label
 * @param {Offer[]} offers
 * @param {any} value
 * @param {(name: string, value: any) => void} choose
 * @param {string[]} reasons
 * @param {string} hint
 */
function buttons(key, label, offers, value, choose, reasons, hint) {
  const why = new Map();
  const radios = offers.map(([one, reason]) => {
    if (reason) why.set(reason, [...(why.get(reason) ?? []), one]);
    return h("button", {
      type: "button", role: "radio", "aria-checked": String(one === value),
      "data-key": `${key} ${one}`, "aria-disabled": reason ? "true" : null,
      title: reason || null, class: one === value ? "on" : "",
      tabindex: one === value ? 0 : -1,
      onclick: () => { if (!reason && one !== value) choose(key, one); },
    }, String(one));
  });
  for (const [reason, ones] of why) {
    reasons.push(reason.startsWith(`${key} `) ? reason : `${key} ${ones.join(", ")}: ${reason}`);
  }
  const group = h("span", { role: "radiogroup", "aria-label": label, class: "hw-radios" }, ...radios);
  group.addEventListener("keydown", (event) => arrows(event, radios));
  return h("div", { class: "hw-field", title: hint }, h("span", {}, key), group);
}

/** Move among radio buttons as the keyboard does among native ones, over those that are offered. */
function arrows(event, radios) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const open = radios.filter((one) => one.getAttribute("aria-disabled") !== "true");
  const now = open.indexOf(event.target);
  const next = open[(now + step + open.length) % open.length];
  next.focus();
  next.click();
}

function flag(key, offers, value, choose, reasons, hint) {
  const [, why, note] = offers[1];
  if (why || note) reasons.push(`${key}: ${why || note}`);
  return h("label", { class: "hw-field hw-flag", title: hint }, h("span", {}, key), h("input", {
    type: "checkbox", role: "switch", checked: value, disabled: Boolean(why) && !value,
    "data-key": key, onchange: () => choose(key, !value),
  }));
}

/** @param {Record<string, any>} state @param {Wire} wire */
function memoryPart(state, wire) {
  const { memory, ways } = state;
  if (memory.problem) {
    return [h("p", { class: "hw-bad" }, `✕ Cannot be trained so: ${memory.problem}.`),
      waysPart("The nearest that can", ways, wire, true)];
  }
  if (memory.status === "ask") {
    return [h("p", {}, "The class of this job came with a file. It is loaded only when you ask. ",
      h("button", { "data-key": "estimate", onclick: () => wire.send({ type: "estimate" }) },
        "Load it and estimate the memory"))];
  }
  if (memory.status) return [h("p", { class: "hw-muted", role: "status" }, memory.status)];
  const children = [barOf(memory)];
  if (ways.length) {
    const tight = memory.word === "tight";
    children.push(waysPart(tight ? "More room, least loss of speed first"
      : "To make it fit, least loss of speed first", ways, wire, !tight));
  } else if (memory.hopeless) {
    children.push(h("p", { class: "hw-bad" },
      "No other choice of hardware makes it fit: a smaller model would."));
  }
  return children;
}

/**
 * @param {string} title
 * @param {Record<string, string>[]} ways
 * @param {Wire} wire
 * @param {boolean} needed whether one of them is the thing to do next
 */
function waysPart(title, ways, wire, needed) {
  if (!ways.length) return null;
  return h("div", { class: "hw-ways" },
    h("h4", {}, title),
    h("ol", {}, ...ways.map((way, index) => h("li", {},
      h("span", { class: "hw-way" }, way.changes),
      h("span", { class: "hw-number" }, way.gain),
      h("span", { class: "hw-muted" }, way.then),
      h("button", {
        type: "button", class: index === 0 && needed ? "primary" : "", "data-key": `way ${index}`,
        "aria-label": `Apply ${way.changes}`,
        onclick: () => wire.send({ type: "way", ...way }),
      }, "Apply")))));
}

/** @param {Record<string, any>} state @param {Wire} wire */
function hostsPart(state, wire) {
  const { hosts, status } = state.hosts;
  const busy = status === "asking…";
  const able = hosts.filter((one) => one.could).length;
  const unknown = hosts.filter((one) => one.could === null).length;
  const more = unknown ? `, ${unknown} not known` : "";
  const head = h("div", { class: "hw-row" },
    h("h4", {}, hosts.length ? `Hosts that could take it: ${able} of ${hosts.length}${more}` : "Hosts"),
    h("button", {
      "data-key": "probe", disabled: busy, title: "ask all hosts what is free now",
      onclick: () => wire.send({ type: "probe" }),
    }, busy ? "asking…" : "↻ Refresh"),
    h("span", { role: "status", class: "hw-bad" }, busy ? "" : status));
  const rows = hosts.map((one) => h("tr", { class: one.could === false ? "hw-out" : "" },
    h("td", {}, one.could === null ? "? " : one.could ? "✓ " : "– ", one.name),
    h("td", { class: "hw-muted" }, one.type),
    h("td", {}, one.chips || (one.type === "local" ? "this machine" : "")),
    h("td", { class: "hw-muted" }, one.reason),
    h("td", { class: "hw-muted hw-age" }, one.probed ? `asked ${ago(one.probed)}` : "not asked yet")));
  return [head, hosts.length ? h("div", { class: "hw-scroll" },
    h("table", { "aria-label": "Hosts" }, h("tbody", {}, ...rows))) : null];
}

/** @param {number} when unix seconds */
function ago(when) {
  const seconds = Math.max(0, Date.now() / 1000 - when);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** The code that gives the same, and the file. @param {Wire} wire */
function codePart(wire) {
  const kinds = { python: "Python", options: "Command line", yaml: "YAML" };
  let kind = "python";
  const text = h("pre", { class: "hw-code", tabindex: 0, "aria-label": "Code" });
  const copied = h("span", { role: "status", class: "hw-muted" });
  const tabs = Object.entries(kinds).map(([name, label]) => h("button", {
    type: "button", "aria-pressed": "false",
    onclick: () => { kind = name; update(); },
  }, label));
  const path = /** @type {HTMLInputElement} */ (h("input", {
    type: "text", "aria-label": "File to save to", size: 24, value: "" }));
  const said = h("span", { role: "status", class: "hw-muted" });
  const save = (force) => wire.send({ type: "save", path: path.value, force });
  const again = h("button", { type: "button", hidden: true, onclick: () => save(true) }, "Replace it");
  const details = /** @type {HTMLDetailsElement} */ (h("details", {},
    h("summary", {}, "Show code"),
    h("div", { class: "hw-row" }, ...tabs,
      h("button", {
        type: "button",
        onclick: async () => {
          await navigator.clipboard.writeText(text.textContent ?? "");
          copied.textContent = "copied";
          setTimeout(() => { copied.textContent = ""; }, AGAIN);
        },
      }, "Copy"), copied),
    text));
  details.addEventListener("toggle", update);
  const element = h("section", { class: "hw-foot", "aria-label": "Code and file" },
    h("div", { class: "hw-row" }, path,
      h("button", { type: "button", onclick: () => save(false) }, "Save"), again, said),
    details);
  let open = false;

  function update() {
    const { code, asked } = wire.state();
    if (!path.value) path.value = `${asked.name.replace(/[^\w.-]+/g, "-")}.yaml`;
    const wanted = details.open && kind === "yaml";
    if (wanted !== open) {
      open = wanted;
      wire.send({ type: "yaml", open });
    }
    text.textContent = code[kind] || (kind === "options" ? "(nothing is asked for)" : "…");
    tabs.forEach((tab, index) => tab.setAttribute(
      "aria-pressed", String(Object.keys(kinds)[index] === kind)));
  }

  /** @param {any} message */
  function told(message) {
    again.hidden = message.type !== "exists";
    if (message.type === "exists") said.textContent = `${message.path} exists and says something else. `;
    if (message.type === "saved") said.textContent = message.text;
  }
  return { element, update, told };
}

/** @param {{ model: any, el: HTMLElement }} given */
function render({ model, el }) {
  const root = h("div");
  el.append(root);
  const view = hardware(root, {
    state: () => Object.fromEntries(NAMES.map((name) => [name, model.get(name)])),
    send: (message) => model.send(message),
  });
  // What changes together is drawn together.
  const waiting = new Set();
  const changed = (name) => () => {
    if (!waiting.size) {
      queueMicrotask(() => {
        const names = [...waiting];
        waiting.clear();
        names.forEach((one) => view.update(one));
      });
    }
    waiting.add(name);
  };
  const listeners = NAMES.map((name) => [`change:${name}`, changed(name)]);
  for (const [event, listener] of listeners) model.on(event, listener);
  model.on("msg:custom", view.told);
  return () => {
    for (const [event, listener] of listeners) model.off(event, listener);
    model.off("msg:custom", view.told);
  };
}

export default { render };
