// Loss curves on a canvas: several runs over steps, tokens or time. Takes plain data.

import { h } from "./dom.js";

const POINTS = 2000; // drawn of a curve, at most
const KEPT = 20000; // of a curve in memory, until it is thinned
const HEIGHT = 220;
const COLOURS = 6;

/** @typedef {"step" | "tokens" | "time"} Axis */

/**
 * One curve: what was measured, and where. `value` is null where it was no finite number.
 * @typedef {{ step: number[], tokens: (number | null)[], time: (number | null)[], value: (number | null)[] }} Series
 */

/** @typedef {{ id: string, label: string, train: Series, validation: Series }} Curves */

/** @typedef {{ run: string, label: string, after?: number, train: Series, validation: Series }} Piece */

/** @returns {Series} */
export function series() {
  return { step: [], tokens: [], time: [], value: [] };
}

/** The curves of several runs; outlives the views that draw them. */
export class CurveStore {
  constructor() {
    /** @type {Map<string, Curves>} */
    this.runs = new Map();
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** Add what is new of some runs. `after` drops what a resumed run has undone beyond that step. */
  take(/** @type {Piece[]} */ pieces) {
    for (const { run, label, after, train, validation } of pieces) {
      let known = this.runs.get(run);
      if (!known) this.runs.set(run, (known = { id: run, label, train: series(), validation: series() }));
      known.label = label;
      for (const [mine, more] of [
        [known.train, train],
        [known.validation, validation],
      ]) {
        if (after !== undefined) forget(mine, after);
        append(mine, more);
        if (mine.step.length > KEPT) Object.assign(mine, thinned(mine, POINTS));
      }
    }
    this.tell();
  }

  /** Forget a run, or all of them. */
  drop(/** @type {string | undefined} */ run = undefined) {
    if (run === undefined) this.runs.clear();
    else this.runs.delete(run);
    this.tell();
  }

  tell() {
    for (const listener of this.listeners) listener();
  }
}

/** @param {Series} mine @param {Series} more */
function append(mine, more) {
  for (const name of /** @type {const} */ (["step", "tokens", "time", "value"])) {
    const to = /** @type {any[]} */ (mine[name]);
    for (const one of more[name]) to.push(one);
  }
}

/** @param {Series} one @param {number} step */
function forget(one, step) {
  let count = one.step.length;
  while (count && one.step[count - 1] > step) count--;
  for (const list of [one.step, one.tokens, one.time, one.value]) list.length = count;
}

/** At most `limit` of the points, with every peak and every gap still to be seen.
 * @param {Series} one @param {number} limit @returns {Series}
 */
export function thinned(one, limit) {
  const count = one.step.length;
  if (count <= limit) return one;
  const kept = [];
  const buckets = Math.floor(limit / 2);
  for (let bucket = 0; bucket < buckets; bucket++) {
    const start = Math.floor((bucket * count) / buckets);
    const end = Math.floor(((bucket + 1) * count) / buckets);
    let low = start;
    let high = start;
    for (let at = start; at < end; at++) {
      const value = one.value[at];
      if (value === null) {
        low = high = at;
        break;
      }
      if (value < Number(one.value[low])) low = at;
      if (value > Number(one.value[high])) high = at;
    }
    kept.push(Math.min(low, high));
    if (low !== high) kept.push(Math.max(low, high));
  }
  const picked = (/** @type {any[]} */ list) => kept.map((at) => list[at]);
  return { step: picked(one.step), tokens: picked(one.tokens), time: picked(one.time), value: picked(one.value) };
}

/** A moving average that forgets at the rate `weight`; gaps stay gaps.
 * @param {(number | null)[]} values @param {number} weight from 0 to below 1
 * @returns {(number | null)[]}
 */
export function smoothed(values, weight) {
  if (!weight) return values;
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight); // so that the first values count in full
    return sum / total;
  });
}

/** Round numbers between two, about so many. @param {number} low @param {number} high @param {number} count */
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5, 10].find((one) => one * size >= rough) ?? 10);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

/** Values for a logarithmic axis. @param {number} low @param {number} high */
export function logTicks(low, high) {
  if (high / low < 8) return ticks(low, high, 4);
  const found = [];
  const factors = high / low > 1000 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const one of factors) {
      const value = one * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found.length > 1 ? found : [low, high];
}

/** `1,240`, `3.41`, `3.2M`. @param {number} value @returns {string} */
export function short(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of /** @type {const} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"]])) {
    if (size >= unit) return `${trimmed(value / unit, 3)}${letter}`;
  }
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return trimmed(value, 4);
}

/** @param {number} value @param {number} digits */
function trimmed(value, digits) {
  return String(Number(value.toPrecision(digits)));
}

/** A time span: `40 s`, `3 min`, `2 h 5 min`. @param {number} seconds */
export function span(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) {
    const rest = whole % 60;
    return rest ? `${Math.floor(whole / 60)} min ${rest} s` : `${whole / 60} min`;
  }
  const minutes = Math.round((whole % 3600) / 60);
  const hours = Math.floor(whole / 3600);
  return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
}

/** Where a point lies along an axis; time counts from the first point of its run.
 * @param {Series} one @param {Axis} axis @param {number} start
 */
function along(one, axis, start) {
  if (axis === "step") return one.step;
  if (axis === "tokens") return one.tokens.map((value, at) => value ?? one.step[at]);
  return one.time.map((value) => (value === null ? 0 : value - start));
}

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {string} run
 * @property {boolean} held validation
 * @property {number} colour
 * @property {number[]} x
 * @property {(number | null)[]} y
 * @property {(number | null)[]} raw
 * @property {number[]} step
 */

/** The lines to draw. @param {CurveStore} store @param {Axis} axis @param {number} weight @returns {Line[]} */
export function linesOf(store, axis, weight) {
  /** @type {Line[]} */
  const found = [];
  [...store.runs.values()].forEach((run, place) => {
    const start = Math.min(run.train.time[0] ?? Infinity, run.validation.time[0] ?? Infinity);
    for (const held of [false, true]) {
      const whole = held ? run.validation : run.train;
      if (!whole.step.length) continue;
      const y = held ? whole.value : smoothed(whole.value, weight);
      // Thinned by what is drawn: the smooth line, and what lies behind it.
      const one = thinned({ ...whole, value: y }, POINTS);
      const behind = weight && !held ? thinned(whole, POINTS) : null;
      found.push({
        label: held ? "validation" : "train",
        run: run.label,
        held,
        // Alone, the two curves of a run differ in colour; beside others, each run has its own.
        colour: store.runs.size === 1 && held ? 1 : place % COLOURS,
        x: along(one, axis, start),
        y: one.value,
        raw: behind ? behind.value : [],
        step: one.step,
        ...(behind ? { rawX: along(behind, axis, start) } : {}),
      });
    }
  });
  return found;
}

/**
 * The curves of a store, with what can be changed about them.
 * @param {CurveStore} store
 * @param {{ until?: () => number | null }} [options] `until` says the last step of the run, so that
 *   the curve grows into a fixed frame
 * @returns {{ element: HTMLElement, draw: () => void, stop: () => void }}
 */
export function chartView(store, { until = () => null } = {}) {
  /** @type {{ axis: Axis, log: boolean, weight: number }} */
  const chosen = { axis: "step", log: false, weight: 0 };
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "t-canvas", role: "img" }));
  const legend = h("div", { class: "t-legend" });
  const said = h("div", { class: "t-point" });
  const axis = /** @type {HTMLSelectElement} */ (
    h(
      "select",
      { "aria-label": "along the axis", onchange: () => change({ axis: /** @type {Axis} */ (axis.value) }) },
      h("option", { value: "step" }, "steps"),
      h("option", { value: "tokens" }, "tokens"),
      h("option", { value: "time" }, "time"),
    )
  );
  const log = /** @type {HTMLInputElement} */ (
    h("input", { type: "checkbox", onchange: () => change({ log: log.checked }) })
  );
  const weight = /** @type {HTMLInputElement} */ (
    h("input", { type: "range", min: "0", max: "0.99", step: "0.01", value: "0", oninput: () => change({ weight: Number(weight.value) }) })
  );
  const amount = h("span", { class: "t-amount" }, "0");
  const bar = h(
    "div",
    { class: "t-chartbar" },
    legend,
    h("span", { class: "t-push" }),
    h("label", {}, "smooth ", weight, amount),
    h("label", {}, log, " log"),
    axis,
  );
  const empty = h("div", { class: "t-empty" }, "No loss was reported yet.");
  const stage = h("div", { class: "t-stage" }, canvas, said);
  const element = h("div", { class: "t-chart" }, bar, stage, empty);
  let frame = 0;
  /** @type {number | null} */
  let pointer = null;

  function change(/** @type {Partial<typeof chosen>} */ more) {
    Object.assign(chosen, more);
    amount.textContent = chosen.weight ? chosen.weight.toFixed(2) : "0";
    schedule();
  }

  function schedule() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    const lines = linesOf(store, chosen.axis, chosen.weight);
    const any = lines.some((line) => line.y.some((value) => value !== null));
    stage.hidden = !any;
    bar.hidden = !any;
    empty.hidden = any;
    const picture = any ? paint(canvas, lines, chosen, chosen.axis === "step" ? until() : null, pointer) : null;
    said.textContent = picture?.said ?? "";
    said.hidden = !said.textContent;
    drawLegend(lines);
    const text = described(lines, chosen.axis);
    if (canvas.getAttribute("aria-label") !== text) canvas.setAttribute("aria-label", text);
  }

  let legendOf = "";
  function drawLegend(/** @type {Line[]} */ lines) {
    const several = store.runs.size > 1;
    const key = JSON.stringify(lines.map((line) => [line.run, line.label, line.colour, several]));
    if (key === legendOf) return;
    legendOf = key;
    legend.replaceChildren(
      ...lines.map((line) =>
        h(
          "span",
          { class: `t-key t-s${line.colour}${line.held ? " t-held" : ""}` },
          h("i", { "aria-hidden": "true" }),
          several ? `${line.run} ${line.held ? "validation" : "train"}` : line.label,
        ),
      ),
    );
  }

  canvas.addEventListener("pointermove", (event) => {
    pointer = event.offsetX;
    schedule();
  });
  canvas.addEventListener("pointerleave", () => {
    pointer = null;
    schedule();
  });
  const resized = new ResizeObserver(schedule);
  resized.observe(element);
  // JupyterLab says its theme on the body.
  const themed = new MutationObserver(schedule);
  themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "class"] });
  store.listeners.add(schedule);
  draw();
  return {
    element,
    draw: schedule,
    stop() {
      store.listeners.delete(schedule);
      resized.disconnect();
      themed.disconnect();
      cancelAnimationFrame(frame);
    },
  };
}

/** The curves in words. @param {Line[]} lines @param {Axis} axis */
function described(lines, axis) {
  const parts = lines.map((line) => {
    const values = /** @type {number[]} */ (line.y.filter((value) => value !== null));
    const [from, to] = [line.step[0], line.step[line.step.length - 1]];
    return values.length
      ? `${line.run} ${line.label} loss from ${short(values[0])} to ${short(values[values.length - 1])}, steps ${from} to ${to}`
      : `${line.run} ${line.label} loss not finite`;
  });
  return parts.length ? `Loss over ${axis === "step" ? "steps" : axis}: ${parts.join("; ")}` : "no loss yet";
}

/**
 * @param {HTMLCanvasElement} canvas @param {Line[]} lines
 * @param {{ axis: Axis, log: boolean }} chosen @param {number | null} until @param {number | null} pointer
 * @returns {{ said: string }}
 */
function paint(canvas, lines, chosen, until, pointer) {
  const width = Math.max(canvas.clientWidth, 120);
  const height = HEIGHT;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const style = getComputedStyle(canvas);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim() || style.color;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `11px ${style.fontFamily}`;

  const finite = lines.flatMap((line) => [...line.y, ...line.raw]).filter((value) => value !== null);
  const usable = /** @type {number[]} */ (chosen.log ? finite.filter((value) => Number(value) > 0) : finite);
  let low = least(usable, 0);
  let high = most(usable, 1);
  const log = chosen.log && low > 0;
  const to = (/** @type {number} */ value) => (log ? Math.log10(value) : value);
  const room = (to(high) - to(low) || Math.abs(to(high)) * 0.1 || 1e-3) * 0.06;
  const [bottom, top] = [to(low) - room, to(high) + room];
  const xs = lines.flatMap((line) => [line.x[0], line.x[line.x.length - 1]]);
  let left = least(xs, 0);
  const right = Math.max(most(xs, 1), until ?? -Infinity, left + 1e-9);
  if (left <= right * 0.1) left = 0; // a curve from the start begins at zero
  const marks = (log ? logTicks(low, high) : ticks(bottom, top, 5)).filter((mark) => to(mark) >= bottom && to(mark) <= top);
  const named = marks.map(short);
  const margin = { left: Math.ceil(Math.max(...named.map((text) => pen.measureText(text).width), 20)) + 10, right: 12, top: 8, bottom: 34 };
  const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  const px = (/** @type {number} */ x) => margin.left + ((x - left) / (right - left || 1)) * inner.width;
  const py = (/** @type {number} */ y) => margin.top + (1 - (to(y) - bottom) / (top - bottom || 1)) * inner.height;

  pen.strokeStyle = colour("--t-line");
  pen.fillStyle = colour("--t-muted");
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  marks.forEach((mark, at) => {
    const y = Math.round(py(mark)) + 0.5;
    pen.globalAlpha = 0.7;
    line(pen, margin.left, y, width - margin.right, y);
    pen.globalAlpha = 1;
    pen.fillText(named[at], margin.left - 6, y);
  });
  pen.textBaseline = "top";
  pen.textAlign = "center";
  const say = chosen.axis === "time" ? span : short;
  let free = -Infinity;
  for (const mark of ticks(left, right, Math.max(Math.floor(inner.width / 90), 2))) {
    if (chosen.axis === "step" && mark % 1) continue;
    const text = say(mark);
    const half = pen.measureText(text).width / 2;
    const x = Math.min(Math.max(px(mark), half + 2), width - half - 2);
    if (x - half < free) continue;
    free = x + half + 10;
    pen.fillText(text, x, height - margin.bottom + 5);
  }
  pen.fillText({ step: "step", tokens: "tokens", time: "time since the first step" }[chosen.axis], margin.left + inner.width / 2, height - 13);

  pen.save();
  pen.beginPath();
  pen.rect(margin.left, 0, inner.width + margin.right, height - margin.bottom + 1);
  pen.clip();
  pen.lineJoin = "round";
  for (const one of lines) {
    pen.strokeStyle = pen.fillStyle = colour(`--t-s${one.colour}`);
    if (one.raw.length) {
      pen.globalAlpha = 0.28;
      pen.lineWidth = 1;
      trace(pen, /** @type {any} */ (one).rawX, one.raw, px, py, log);
      pen.globalAlpha = 1;
    }
    pen.lineWidth = 1.6;
    pen.setLineDash(one.held ? [5, 3] : []);
    trace(pen, one.x, one.y, px, py, log);
    pen.setLineDash([]);
    if (one.x.length <= 30) {
      one.x.forEach((x, at) => {
        const y = one.y[at];
        if (y !== null && (!log || y > 0)) dot(pen, px(x), py(y), 2.2);
      });
    }
    const gap = one.y.indexOf(null);
    if (gap >= 0) {
      const x = px(one.x[gap]);
      pen.strokeStyle = pen.fillStyle = colour("--t-bad");
      pen.setLineDash([2, 3]);
      line(pen, x, margin.top, x, height - margin.bottom);
      pen.setLineDash([]);
      pen.textAlign = x > width / 2 ? "right" : "left";
      pen.fillText(`not finite at step ${short(one.step[gap])}`, x + (x > width / 2 ? -5 : 5), margin.top + 2);
    }
  }
  let said = "";
  if (pointer !== null && pointer >= margin.left) {
    const at = left + ((pointer - margin.left) / inner.width) * (right - left);
    said = crosshair(pen, lines, at, px, py, colour, log, { top: margin.top, bottom: height - margin.bottom }, say, chosen.axis);
  }
  pen.restore();
  return { said };
}

/** Mark the points that are nearest to `at` and say them. */
function crosshair(
  /** @type {CanvasRenderingContext2D} */ pen,
  /** @type {Line[]} */ lines,
  /** @type {number} */ at,
  /** @type {(x: number) => number} */ px,
  /** @type {(y: number) => number} */ py,
  /** @type {(name: string) => string} */ colour,
  /** @type {boolean} */ log,
  /** @type {{ top: number, bottom: number }} */ frame,
  /** @type {(value: number) => string} */ say,
  /** @type {Axis} */ axis,
) {
  const parts = [];
  let where = at;
  const several = new Set(lines.map((line) => line.run)).size > 1;
  lines.forEach((one, place) => {
    const near = nearest(one.x, at);
    const y = one.y[near];
    if (place === 0) where = one.x[near];
    if (y === null || (log && y <= 0)) return;
    pen.fillStyle = colour(`--t-s${one.colour}`);
    dot(pen, px(one.x[near]), py(y), 3.2);
    parts.push(`${several ? `${one.run} ` : ""}${one.label} ${short(y)}`);
  });
  pen.strokeStyle = colour("--t-muted");
  line(pen, px(where), frame.top, px(where), frame.bottom);
  const unit = axis === "time" ? say(where) : axis === "step" ? `step ${say(where)}` : `${say(where)} tokens`;
  return [unit, ...parts].join(" · ");
}

/** @param {number[]} xs in order @param {number} x */
function nearest(xs, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

/** @param {CanvasRenderingContext2D} pen @param {number[]} xs @param {(number | null)[]} ys @param {(x: number) => number} px @param {(y: number) => number} py @param {boolean} log */
function trace(pen, xs, ys, px, py, log) {
  pen.beginPath();
  let down = false;
  for (let at = 0; at < xs.length; at++) {
    const y = ys[at];
    if (y === null || (log && y <= 0)) {
      down = false;
      continue;
    }
    if (down) pen.lineTo(px(xs[at]), py(y));
    else pen.moveTo(px(xs[at]), py(y));
    down = true;
  }
  pen.stroke();
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} toX @param {number} toY */
function line(pen, x, y, toX, toY) {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} radius */
function dot(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

/** @param {number[]} values @param {number} none */
function least(values, none) {
  return values.length ? values.reduce((low, value) => Math.min(low, value), Infinity) : none;
}

/** @param {number[]} values @param {number} none */
function most(values, none) {
  return values.length ? values.reduce((high, value) => Math.max(high, value), -Infinity) : none;
}
