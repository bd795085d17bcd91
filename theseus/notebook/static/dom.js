// Small helpers over the document. Text is always set as text: nothing here parses HTML.

/**
 * An element with attributes, listeners and children.
 *
 * `h("button", { class: "x", onclick: save, disabled: true }, "Save")`: names that begin with `on`
 * are listeners; `true` sets a bare attribute, `false`, `null` and `undefined` leave it out;
 * children are nodes or text, and empty ones are left out.
 *
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(typeof child === "number" ? String(child) : child);
    }
  }
  return element;
}

/**
 * Keep what is typed in a widget from reaching the notebook, whose single-letter shortcuts would
 * otherwise delete cells or move about. Keys with a modifier still pass (Ctrl-S saves), and so do
 * Escape and Tab outside of a field.
 *
 * @param {HTMLElement} root
 */
export function keepKeys(root) {
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
  });
  // JupyterLab leaves elements alone that are marked so, also in command mode.
  root.setAttribute("data-lm-suppress-shortcuts", "true");
}
