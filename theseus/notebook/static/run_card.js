// The widget of a run card: a model's messages into a store, a view of the store into the cell.

import { CardStore, cardView } from "./card.js";
import { h, keepKeys } from "./dom.js";

/** @type {Map<string, CardStore>} by the model's key: each view and hook has a model object of its own */
const stores = new Map();

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

export default {
  initialize({ /** @type {any} */ model }) {
    storeOf(model);
  },
  render({ /** @type {any} */ model, /** @type {HTMLElement} */ el }) {
    const view = cardView(storeOf(model));
    const root = h("div", { class: "jp-theseus jp-theseus-run" }, view.element);
    keepKeys(root);
    el.append(root);
    return view.stop;
  },
};
