// Several chips, chosen from a list that is searched by typing.

import { h } from "./dom.js";

const MARKS = { fits: "✓", tight: "▲", "does not fit": "✕" };
let made = 0; // ids must differ between the widgets of a page

/**
 * @param {() => Record<string, any>} state
 * @param {(chips: string[]) => void} choose
 * @returns {{ element: HTMLElement, update: () => void }}
 */
export function chipPicker(state, choose) {
  const id = `theseus-chips-${++made}`;
  const tags = h("span", { class: "hw-tags" });
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "text", role: "combobox", "aria-expanded": "false", "aria-controls": id,
    "aria-autocomplete": "list", "aria-label": "Add a chip", autocomplete: "off", size: 10,
  }));
  const options = h("ul", { class: "hw-options", role: "listbox", id, "aria-label": "Chips", hidden: true });
  const box = h("span", { class: "hw-combo" }, tags, input, options);
  const element = h("div", { class: "hw-field hw-chips" }, h("span", {}, "chip"), box);
  let active = 0;

  const found = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { catalogue, asked } = state();
    return catalogue.filter((one) => !asked.chips.includes(one.name)
      && words.every((word) => `${one.name} ${one.kind} ${one.memory}`.toLowerCase().includes(word)));
  };

  function add(name) {
    input.value = "";
    close();
    choose([...state().asked.chips, name]);
  }

  function close() {
    options.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function open() {
    const { memory } = state();
    const chips = found();
    active = Math.max(0, Math.min(active, chips.length - 1));
    options.replaceChildren(...chips.map((one, index) => {
      const word = memory.on[one.name];
      return h("li", {
        role: "option", id: `${id}-${index}`, "aria-selected": String(index === active),
        class: index === active ? "on" : "",
        onmousedown: (event) => { event.preventDefault(); add(one.name); },
      },
      h("span", { class: "hw-name" }, one.name),
      h("span", { class: "hw-number" }, one.memory),
      h("span", { class: "hw-number hw-muted" }, one.peak),
      h("span", { class: `hw-verdict ${(word ?? "").replaceAll(" ", "-")}` },
        word ? `${MARKS[word] ?? ""} ${word}` : ""));
    }), ...(chips.length ? [] : [h("li", { class: "hw-muted" }, "no chip of that name")]));
    options.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (chips.length) input.setAttribute("aria-activedescendant", `${id}-${active}`);
    options.children[active]?.scrollIntoView({ block: "nearest" });
  }

  input.addEventListener("focus", () => { active = 0; });
  input.addEventListener("click", open);
  input.addEventListener("input", () => { active = 0; open(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      if (!options.hidden) active += step;
      open();
    } else if (event.key === "Enter" && !options.hidden) {
      event.preventDefault();
      const one = found()[active];
      if (one) add(one.name);
    } else if (event.key === "Escape" && !options.hidden) {
      event.stopPropagation();
      close();
    } else if (event.key === "Backspace" && !input.value && state().asked.chips.length) {
      choose(state().asked.chips.slice(0, -1));
    }
  });

  function update() {
    const { asked, catalogue, memory } = state();
    input.setAttribute("placeholder", asked.chips.length ? "or…" : "any — search");
    tags.replaceChildren(...asked.chips.map((name) => {
      const one = catalogue.find((chip) => chip.name === name);
      const word = memory.on[name];
      return h("span", { class: "hw-tag", title: one ? `${one.memory}, ${one.peak}` : null },
        word && word !== "unknown" ? h("span", { class: `hw-verdict ${word.replaceAll(" ", "-")}`, title: word }, `${MARKS[word]} `) : null,
        name,
        one ? h("span", { class: "hw-muted" }, ` ${one.memory}`) : null,
        h("button", {
          type: "button", "aria-label": `Remove ${name}`, "data-key": `chip ${name}`,
          onclick: () => choose(asked.chips.filter((other) => other !== name)),
        }, "×"));
    }));
    if (!options.hidden) open();
  }
  update();
  return { element, update };
}
