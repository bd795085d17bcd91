// The submit panel: hosts with their verdicts, a dry run, and the card of the run in its place.

import { CardStore, cardView } from "./card.js";
import { h, keepKeys } from "./dom.js";

/** @type {Map<string, CardStore>} by the model's key: each view and hook has a model object of its own */
const stores = new Map();

const SHAPES = { now: "●", queue: "◔", no: "○", unknown: "?", asking: "·" };

function storeOf(/** @type {any} */ model) {
  const key = model.get("key");
  let store = stores.get(key);
  if (!store) {
    store = new CardStore((message) => model.send(message));
    stores.set(key, store);
    const made = store;
    model.on("change:card", () => made.update(model.get("card")));
    model.on("msg:custom", (/** @type {any} */ message) => made.message(message));
    model.on("comm_live_update", () => made.end());
    made.update(model.get("card"));
  }
  return store;
}

/**
 * The panel over a model that has the trait `panel`.
 * @param {any} model @param {CardStore} store
 * @returns {{ element: HTMLElement, stop: () => void }}
 */
function panelView(model, store) {
  const name = field("name", "name");
  const project = field("project", "project");
  const group = field("group", "group");
  const asks = h("span", { class: "t-quiet" });
  const probed = h("span", { class: "t-quiet", role: "status" });
  const refresh = button("↻", () => model.send({ type: "probe" }));
  refresh.setAttribute("aria-label", "ask the hosts again");
  refresh.title = "ask the hosts again";
  const rows = h("div", { class: "t-hosts", role: "radiogroup", "aria-label": "host" });
  const trouble = h("div", { class: "t-trouble t-bad", role: "alert" });
  const dry = button("Dry run", () => model.send({ type: "dry", ...chosen() }));
  const submit = button("Submit", send);
  submit.classList.add("primary");
  const add = button("Add a host…", () => model.send({ type: "add", step: "begin" }));
  const said = h("div", { class: "t-answer", role: "status" });
  const rehearsal = h("pre", { class: "t-rehearsal", tabindex: "0", "aria-label": "what would be sent" });
  const rehearsed = h("details", { open: true }, h("summary", { class: "t-quiet" }, "what would be sent"), rehearsal);
  const adding = h("div", { class: "t-adding" });
  const place = h("div", { class: "t-place" });
  const element = h(
    "div",
    { class: "t-submit" },
    h("div", { class: "t-names" }, name.label, project.label, group.label, h("span", { class: "t-push" }), asks),
    h("div", { class: "t-hosthead" }, h("span", {}, "Host"), h("span", { class: "t-push" }), probed, refresh),
    rows,
    trouble,
    h("div", { class: "t-buttons" }, submit, dry, add),
    said,
    adding,
    rehearsed,
    place,
  );
  /** @type {string} the host that the user has taken instead of the one that would be chosen */
  let taken = "";
  let typed = false;
  /** @type {ReturnType<typeof cardView> | null} */
  let card = null;
  for (const one of [name, project, group]) one.input.addEventListener("input", () => (typed = true));

  function chosen() {
    return { host: taken, name: name.input.value, project: project.input.value, group: group.input.value };
  }

  function send() {
    // Until the kernel has heard of it, a second click finds the button off.
    submit.toggleAttribute("disabled", true);
    model.send({ type: "submit", ...chosen() });
  }

  let rowsOf = "";
  function drawHosts(/** @type {any} */ panel) {
    const key = JSON.stringify([panel.hosts, taken]);
    if (key === rowsOf) return;
    rowsOf = key;
    const focused = rows.contains(document.activeElement) ? /** @type {HTMLInputElement} */ (document.activeElement).value : null;
    rows.replaceChildren(
      row("", "first that fits", "", "", panel.hosts.find((/** @type {any} */ one) => one.chosen)?.name ?? "", "", taken === ""),
      ...panel.hosts.map((/** @type {any} */ one) =>
        row(one.name, one.name, one.chips || "—", one.fit, one.verdict, one.reason, taken === one.name, one.chosen, one.type),
      ),
    );
    if (focused !== null) [...rows.querySelectorAll("input")].find((one) => one.value === focused)?.focus();
  }

  function row(
    /** @type {string} */ value,
    /** @type {string} */ label,
    /** @type {string} */ chips,
    /** @type {string} */ fit,
    /** @type {string} */ verdict,
    /** @type {string} */ reason,
    /** @type {boolean} */ on,
    would = false,
    type = "",
  ) {
    const input = h("input", {
      type: "radio",
      name: `host-${model.get("key")}`,
      value,
      checked: on,
      onchange: () => {
        taken = value;
        draw();
      },
    });
    if (!value) {
      return h("label", { class: "t-host t-auto" }, input, h("span", {}, label), h("span", { class: "t-quiet" }, verdict ? `now: ${verdict}` : ""));
    }
    return h(
      "label",
      { class: `t-host t-fit-${fit}${would ? " t-would" : ""}` },
      input,
      h("span", { class: "t-hostname" }, label, h("span", { class: "t-quiet" }, ` ${type}`)),
      h("span", { class: "t-hostchips" }, chips),
      h("span", { class: "t-verdict" }, h("span", { class: "t-shape", "aria-hidden": "true" }, SHAPES[/** @type {keyof typeof SHAPES} */ (fit)] ?? "·"), verdict),
      h("span", { class: "t-reason" }, reason, would ? h("span", { class: "t-mark" }, " chosen: first in priority that fits") : ""),
    );
  }

  function drawAdding(/** @type {any} */ now, /** @type {boolean} */ busy) {
    const key = JSON.stringify([now, busy]);
    if (adding.dataset.key === key) return;
    const before = adding.dataset.step;
    adding.dataset.key = key;
    adding.dataset.step = now?.step ?? "";
    adding.hidden = !now;
    if (!now) return;
    if (before === now.step && busy) {
      adding.querySelectorAll("button, input").forEach((one) => one.toggleAttribute("disabled", true));
      return;
    }
    const close = button(now.step === "done" ? "Close" : "Cancel", () => model.send({ type: "add", step: "close" }));
    if (now.step === "alias") {
      const list = `aliases-${model.get("key")}`;
      const alias = /** @type {HTMLInputElement} */ (h("input", { type: "text", list, size: "28", placeholder: "what `ssh` reaches it by" }));
      const look = button("Look at it", () => model.send({ type: "add", step: "look", alias: alias.value }));
      onEnter(alias, look);
      adding.replaceChildren(
        h("div", { class: "t-step" }, "1 of 3 · which host"),
        h("label", {}, "ssh ", alias),
        h("datalist", { id: list }, ...now.aliases.map((/** @type {string} */ one) => h("option", { value: one }))),
        h("span", { class: "t-quiet" }, now.aliases.length ? `${now.aliases.length} in your ssh configuration` : "your ssh configuration names none"),
        now.aliases.length ? h("div", { class: "t-aliases" }, ...now.aliases.slice(0, 12).map((/** @type {string} */ one) => button(one, () => ((alias.value = one), look.focus())))) : "",
        h("div", { class: "t-buttons" }, look, close),
      );
      alias.focus();
    } else if (now.step === "folders") {
      const called = /** @type {HTMLInputElement} */ (h("input", { type: "text", value: now.name }));
      const fields = now.questions.map((/** @type {any} */ one) => [one.key, h("input", { type: "text", value: one.proposed, size: "30" }), one.text]);
      const next = button("Show the entry", () =>
        model.send({ type: "add", step: "propose", name: called.value, folders: Object.fromEntries(fields.map(([key, input]) => [key, input.value])) }),
      );
      for (const [, input] of fields) onEnter(input, next);
      adding.replaceChildren(
        h("div", { class: "t-step" }, `2 of 3 · ${now.alias}: where things go`),
        h("dl", { class: "t-facts" }, ...now.found.map((/** @type {[string, string]} */ [label, text]) => h("div", {}, h("dt", {}, label), h("dd", {}, text)))),
        h("label", { class: "t-asked" }, h("span", {}, "called here"), called),
        ...fields.map(([, input, text]) => h("label", { class: "t-asked" }, h("span", {}, text), input)),
        h("div", { class: "t-buttons" }, next, close),
      );
      called.focus();
    } else if (now.step === "entry") {
      const write = button("Write it", () => model.send({ type: "add", step: "write" }));
      write.classList.add("primary");
      adding.replaceChildren(
        h("div", { class: "t-step" }, `3 of 3 · what is added to ${now.path}`),
        h("pre", { class: "t-rehearsal", tabindex: "0" }, now.yaml),
        ...now.notes.map((/** @type {string} */ note) => h("div", { class: "t-quiet" }, note)),
        h("div", { class: "t-buttons" }, write, close),
      );
      write.focus();
    } else {
      adding.replaceChildren(h("div", {}, now.said), h("div", { class: "t-buttons" }, close));
      close.focus();
    }
  }

  function draw() {
    const panel = model.get("panel");
    if (!typed) {
      name.input.value = panel.name;
      project.input.value = panel.project;
      group.input.value = panel.group;
    }
    asks.textContent = panel.asks ? `asks for ${panel.asks}` : "";
    const busy = !!panel.busy;
    probed.textContent = panel.probing ? "asking …" : panel.probed ? `asked ${ago(panel.probed)}` : "";
    refresh.toggleAttribute("disabled", panel.probing || store.gone);
    drawHosts(panel);
    trouble.hidden = !panel.trouble && !store.gone;
    trouble.textContent = store.gone ? "The kernel has ended: run this cell again." : panel.trouble;
    const would = taken || panel.hosts.find((/** @type {any} */ one) => one.chosen)?.name || "";
    const text = busy && panel.busy.startsWith("sending") ? "Sending …" : would ? `Submit to ${would}` : "Submit";
    if (submit.textContent !== text) submit.textContent = text;
    for (const one of [submit, dry, add]) one.toggleAttribute("disabled", busy || store.gone);
    said.hidden = !busy && !panel.said;
    said.className = `t-answer${panel.ok ? "" : " t-bad"}`;
    const told = busy ? [panel.busy, ...panel.lines].join("\n") : panel.ok ? (panel.said ? `submitted: ${panel.said}` : "") : panel.said;
    if (said.textContent !== told) said.textContent = told;
    rehearsed.hidden = !panel.rehearsal;
    if (rehearsal.textContent !== panel.rehearsal) {
      rehearsal.textContent = panel.rehearsal;
      rehearsed.setAttribute("open", "");
    }
    drawAdding(panel.adding, busy);
    if (store.card.run && !card) {
      card = cardView(store);
      place.append(card.element);
    }
  }

  const clock = setInterval(draw, 10000);
  model.on("change:panel", draw);
  store.listeners.add(draw);
  draw();
  if (!store.card.run) model.send({ type: "probe" });
  return {
    element,
    stop() {
      clearInterval(clock);
      model.off("change:panel", draw);
      store.listeners.delete(draw);
      card?.stop();
    },
  };
}

function field(/** @type {string} */ name, /** @type {string} */ label) {
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "text", "data-field": name, size: name === "name" ? "18" : "10" }));
  return { input, label: h("label", {}, `${label} `, input) };
}

function onEnter(/** @type {HTMLElement} */ input, /** @type {HTMLElement} */ then) {
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      then.click();
    }
  });
}

/** @param {string} text @param {() => void} onclick */
function button(text, onclick) {
  return h("button", { type: "button", onclick }, text);
}

function ago(/** @type {number} */ seconds) {
  const passed = Math.max(Date.now() / 1000 - seconds, 0);
  if (passed < 10) return "just now";
  if (passed < 60) return `${Math.floor(passed / 10) * 10} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  return `${Math.floor(passed / 3600)} h ago`;
}

export default {
  initialize({ /** @type {any} */ model }) {
    storeOf(model);
  },
  render({ /** @type {any} */ model, /** @type {HTMLElement} */ el }) {
    const view = panelView(model, storeOf(model));
    const root = h("div", { class: "jp-theseus jp-theseus-submit jp-theseus-run" }, view.element);
    keepKeys(root);
    el.append(root);
    return view.stop;
  },
};
