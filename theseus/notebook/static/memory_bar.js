// The memory of one device as a bar, and the mesh of devices as a picture.

import { h } from "./dom.js";

const MOST_COLUMNS = 32;
const MOST_ROWS = 8;

/**
 * A stacked bar: parts of the memory that is used, what is left, and where the margin begins.
 *
 * @param {Record<string, any>} memory
 */
export function barOf(memory) {
  const scale = Math.max(memory.total, memory.memory ?? 0) || 1;
  const share = (count) => `${(100 * count) / scale}%`;
  const segments = memory.parts.map(([name, count, text]) => h("span", {
    class: `hw-part hw-${name}`, style: `width: ${share(count)}`, title: `${name} ${text}`,
  }));
  const marks = [];
  if (memory.usable !== null) {
    marks.push(h("span", {
      class: "hw-margin", style: `left: ${share(memory.usable)}; right: ${share(Math.max(0, memory.total - memory.memory))}`,
      title: "kept free: drivers, libraries and communication need it",
    }));
    marks.push(h("span", { class: "hw-limit", style: `left: ${share(memory.memory)}` }));
  }
  return h("figure", { class: "hw-bar-figure" },
    h("figcaption", {}, memory.memory !== null ? h("span", { class: "hw-muted" }, "each device ") : null, memory.text,
      memory.usable !== null ? h("span", { class: "hw-muted" }, " (a tenth is kept free)") : null),
    h("div", { class: `hw-bar ${memory.word.replaceAll(" ", "-")}`, role: "img",
      "aria-label": `${memory.text}: ${memory.parts.map(([name, , text]) => `${name} ${text}`).join(", ")}` },
    ...segments, ...marks),
    h("ul", { class: "hw-legend" }, ...memory.parts.map(([name, , text]) => h("li", {},
      h("span", { class: `hw-swatch hw-${name}`, "aria-hidden": "true" }), name, " ",
      h("span", { class: "hw-number" }, text)))));
}

/**
 * The mesh: a column for each part of the batch, a row for each part of a layer.
 *
 * @param {Record<string, any>} memory
 * @param {Record<string, any>} asked
 */
export function meshOf(memory, asked) {
  const [data, tensor] = memory.mesh;
  if (!data) return null;
  const columns = Math.min(data, MOST_COLUMNS);
  const rows = Math.min(tensor, MOST_ROWS);
  const text = `${data} data × ${tensor} tensor`;
  const spread = asked.fsdp ? "fsdp" : asked.zero ? "zero" : "";
  const cells = [];
  for (let i = 0; i < columns * rows; i++) {
    const row = Math.floor(i / columns);
    cells.push(h("span", {
      class: `hw-device ${spread && data > 1 ? "spread" : ""}`,
      style: `--shade: ${20 + (60 * (row + 1)) / rows}%`,
      title: `data ${i % columns}, tensor ${row}`,
    }));
  }
  const cut = columns < data || rows < tensor ? " …" : "";
  const what = [
    data > 1 ? `the batch is split in ${data}` : "each device has the whole batch",
    tensor > 1 ? `each layer in ${tensor}` : "",
    data > 1 && spread === "fsdp" ? "all state is spread over the data axis" : "",
    data > 1 && spread === "zero" ? "gradients and optimizer state are spread over the data axis" : "",
  ].filter(Boolean).join(", ");
  return h("div", { class: "hw-mesh" },
    h("span", { class: "hw-muted" }, "mesh"), h("span", {}, text),
    h("span", { class: "hw-devices", role: "img", "aria-label": text,
      style: `grid-template-columns: repeat(${columns}, auto)` }, ...cells),
    h("span", { class: "hw-muted" }, `${cut} ${what}`));
}
