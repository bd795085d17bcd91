// "Show code": what was changed, as text to copy.
import { h } from "./dom.js";

const KINDS = [
  ["python", "Python"],
  ["yaml", "YAML"],
  ["command", "Command line"],
];

/** @param {() => void} ask what asks for the texts @returns {any} */
export function codePanel(ask) {
  let kind = "python";
  /** @type {any} */
  let texts = null;
  const pre = h("pre", { tabindex: "0", "aria-label": "code" });
  const copy = h("button", { type: "button", onclick: () => copied() }, "Copy");
  const tabs = KINDS.map(([name, label]) =>
    h("button", { type: "button", "aria-pressed": String(name === kind),
      onclick: () => { kind = name; shown(); } }, label));
  const element = h("div", { class: "t-code", hidden: true },
    h("div", { class: "t-tabs", role: "group", "aria-label": "as" }, ...tabs,
      h("span", { class: "t-push" }), copy), pre);
  const button = h("button", { type: "button", "aria-expanded": "false", onclick: toggle }, "Show code");
  const panel = { element, button, open: false, show(/** @type {any} */ found) { texts = found; shown(); } };

  function toggle() {
    panel.open = !panel.open;
    element.hidden = !panel.open;
    button.setAttribute("aria-expanded", String(panel.open));
    button.textContent = panel.open ? "Hide code" : "Show code";
    if (panel.open) ask();
  }

  function shown() {
    tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", String(KINDS[index][0] === kind)));
    const text = texts ? texts[kind] : "…";
    pre.textContent = text || "nothing is changed: the defaults need no code";
    copy.toggleAttribute("disabled", !text);
  }

  async function copied() {
    try {
      await navigator.clipboard.writeText(pre.textContent || "");
      copy.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(pre);
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      copy.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  }

  shown();
  return panel;
}
