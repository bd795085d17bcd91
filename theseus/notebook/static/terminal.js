// What a log looks like on a terminal: text in, lines of plain text with looks out. Pure: no
// document, no timers. Whatever stands in a log, it leaves here as text and as class names of ours.

/**
 * A piece of a line in one look. The class is one of ours (`t-c1 t-bold`), or empty.
 * @typedef {[text: string, look: string]} Span
 */

/**
 * @typedef {object} Row
 * @property {Span[]} spans
 * @property {number} size the number of cells
 */

const ESC = "\u001b";
const TAB = 8;
const SCREEN = 100; // rows above the last one that the cursor can go back to
const LONGEST_SEQUENCE = 4096; // of an escape that has no end yet; a longer one is text

// Letters that join the one before them, so that the cursor does not move.
const JOINS = /^[\p{M}\u200c\u200d\ufe0e\ufe0f]$/u;
// Characters that hide, or turn the order of others around: shown by their number.
const HIDDEN = /[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const SPECIAL =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\ud800-\udfff]/g;
const CONTROL = "t-control";

/** One log as a terminal shows it, of which the last lines are kept. */
export class Terminal {
  /** @param {{ lines?: number, characters?: number, width?: number }} [bounds] what is kept */
  constructor({ lines = 20000, characters = 8_000_000, width = 10000 } = {}) {
    this.bounds = { lines, characters, width };
    this.clear();
  }

  /** Forget everything. */
  clear() {
    /** @type {Row[]} */
    this.rows = [];
    /** The number of the first line that is kept; earlier ones were dropped. */
    this.first = 0;
    /** The first line that changed since `taken` was called. */
    this.changed = 0;
    this.stored = 0;
    this.row = 0;
    this.column = 0;
    this.look = "";
    /** @type {Looks} */
    this.looks = plain();
    this.waiting = "";
    /** @type {{ row: number, chars: string[], looks: string[], size: number } | null} */
    this.open = null;
  }

  /** One more than the number of the last line. @returns {number} */
  get end() {
    this._close();
    const last = this.rows[this.rows.length - 1];
    // A log that ends with a line end does not begin another line by it.
    return this.first + this.rows.length - (last && last.size === 0 && this.rows.length > 1 ? 1 : 0);
  }

  /** The look of line number `at`. @param {number} at @returns {Span[]} */
  spans(at) {
    this._close();
    return this.rows[at - this.first]?.spans ?? [];
  }

  /** The text of line number `at`. @param {number} at @returns {string} */
  text(at) {
    return this.spans(at)
      .map(([text]) => text)
      .join("");
  }

  /** All lines that are kept. @returns {string[]} */
  lines() {
    const found = [];
    for (let at = this.first; at < this.end; at++) found.push(this.text(at));
    return found;
  }

  /** The first line that changed since the last call. @returns {number} */
  taken() {
    this._close();
    const from = Math.max(this.changed, this.first);
    this.changed = this.first + this.rows.length;
    return from;
  }

  /** Take in text; an escape, or a character, that is cut at its end is put together later. */
  feed(/** @type {string} */ text) {
    const all = this.waiting + text;
    this.waiting = "";
    let at = 0;
    while (at < all.length) {
      const next = search(SPECIAL, all, at);
      if (next > at) this._write(all.slice(at, next));
      at = next;
      if (at >= all.length) break;
      const taken = all[at] === ESC ? this._escape(all, at) : this._special(all, at);
      if (taken === 0) {
        this.waiting = all.slice(at);
        break;
      }
      at += taken;
    }
    this._drop();
  }

  /** Add a line of our own, which is no part of the log. */
  note(/** @type {string} */ text) {
    this._close();
    this._reach();
    this.waiting = "";
    if (this.rows[this.rows.length - 1].size) this._go(this.first + this.rows.length, 0);
    this._go(this.first + this.rows.length - 1, 0);
    for (const one of text) this._cell(one, "t-note");
    this._go(this.row + 1, 0);
  }

  // What the cursor does

  /** @param {string} all @param {number} at @returns {number} how many were taken; 0: wait */
  _special(all, at) {
    const code = all.charCodeAt(at);
    switch (code) {
      case 0x0a:
        this._go(this.row + 1, 0);
        return 1;
      case 0x0d:
        this.column = 0;
        return 1;
      case 0x08:
        this.column = Math.max(this.column - 1, 0);
        return 1;
      case 0x09:
        this._write(" ".repeat(TAB - (this.column % TAB)));
        return 1;
      default:
    }
    if (code < 0x20 || code === 0x7f) {
      this._shown(`^${String.fromCharCode(code ^ 0x40)}`); // as `cat -v` writes it: ^G
      return 1;
    }
    if (code < 0xa0) {
      this._shown(`\\x${code.toString(16)}`);
      return 1;
    }
    if (code >= 0xd800 && code <= 0xdbff) {
      if (at + 1 === all.length) return 0;
      const whole = String.fromCodePoint(/** @type {number} */ (all.codePointAt(at)));
      this._cell(whole.length === 2 ? whole : "\ufffd");
      return whole.length;
    }
    if (code >= 0xdc00 && code <= 0xdfff) this._cell("\ufffd");
    else if (HIDDEN.test(all[at])) this._shown(`\\u${code.toString(16).padStart(4, "0")}`);
    else this._cell(all[at]);
    return 1;
  }

  /** @param {string} all @param {number} at @returns {number} how many were taken; 0: wait */
  _escape(all, at) {
    if (at + 1 === all.length) return 0;
    const kind = all[at + 1];
    if (kind === "[") return this._sequence(all, at);
    if ("]PX^_".includes(kind)) return this._string(all, at);
    if (" #%()*+-./".includes(kind)) return at + 2 === all.length ? 0 : 3; // character sets
    if (kind >= "0" && kind <= "~") return 2; // keypad, saved cursors: nothing to see
    this._shown("^[");
    return 1;
  }

  /** A control sequence: `ESC [ numbers letter`. @param {string} all @param {number} at */
  _sequence(all, at) {
    let end = at + 2;
    while (end < all.length && all[end] >= " " && all[end] <= "?") end++;
    if (end - at > LONGEST_SEQUENCE || (end < all.length && !(all[end] >= "@" && all[end] <= "~"))) {
      this._shown("^["); // no sequence after all
      return 1;
    }
    if (end === all.length) return 0;
    this._do(all[end], all.slice(at + 2, end));
    return end + 1 - at;
  }

  /** A string that a terminal takes for itself, such as a link's address or a title. */
  _string(/** @type {string} */ all, /** @type {number} */ at) {
    for (let end = at + 2; end < all.length; end++) {
      const one = all[end];
      if (one === "\u0007" || one === "\u009c") return end + 1 - at;
      if (one === ESC) {
        if (end + 1 === all.length) return 0;
        if (all[end + 1] === "\\") return end + 2 - at;
      }
      if (one === "\n" || one === ESC || end - at > LONGEST_SEQUENCE) {
        this._shown("^[");
        return 1;
      }
    }
    return 0;
  }

  /** @param {string} letter @param {string} given */
  _do(letter, given) {
    if (letter === "m") {
      if (/^[\d;:]*$/.test(given)) this.look = lookOf(this.looks, given);
      return;
    }
    if (!/^[\d;]*$/.test(given)) return; // a private one, such as hiding the cursor
    const number = Number.parseInt(given, 10) || 0;
    const times = Math.min(Math.max(number, 1), this.bounds.width);
    switch (letter) {
      case "A":
      case "F":
        this._go(this.row - times, letter === "F" ? 0 : this.column);
        break;
      case "B":
      case "E":
        this._go(this.row + Math.min(times, SCREEN), letter === "E" ? 0 : this.column);
        break;
      case "C":
        this.column = Math.min(this.column + times, this.bounds.width);
        break;
      case "D":
        this.column = Math.max(this.column - times, 0);
        break;
      case "G":
      case "`":
        this.column = times - 1;
        break;
      case "K":
        this._erase(number);
        break;
      case "P":
        this._opened().chars.splice(this.column, times);
        this._opened().looks.splice(this.column, times);
        break;
      case "J":
        if (number === 0) this._eraseBelow();
        break;
      default: // well formed, and nothing that a log shows
    }
  }

  /** @param {number} part 0: to the right of the cursor, 1: to the left, 2: all */
  _erase(part) {
    const line = this._opened();
    if (part === 1) {
      const until = Math.min(this.column + 1, line.chars.length);
      for (let at = 0; at < until; at++) {
        line.chars[at] = " ";
        line.looks[at] = "";
      }
    } else if (part === 0 || part === 2) {
      const from = part === 2 ? 0 : this.column;
      line.chars.length = Math.min(line.chars.length, from);
      line.looks.length = line.chars.length;
    }
  }

  _eraseBelow() {
    this._erase(0);
    this._close();
    for (let at = this.row + 1; at < this.first + this.rows.length; at++) {
      this.stored -= this.rows[at - this.first].size;
      this.rows[at - this.first] = { spans: [], size: 0 };
    }
  }

  // Cells

  /** Move to a row, which is made when it is not there yet. */
  _go(/** @type {number} */ row, /** @type {number} */ column) {
    this._close();
    this._reach();
    const last = this.first + this.rows.length - 1;
    this.row = Math.max(row, this.first, last - SCREEN);
    this.column = column;
    this._reach();
  }

  _reach() {
    while (this.first + this.rows.length <= this.row) this.rows.push({ spans: [], size: 0 });
  }

  /** The row of the cursor, cell by cell. */
  _opened() {
    if (this.open?.row === this.row) return this.open;
    this._close();
    this._reach();
    const { spans, size } = this.rows[this.row - this.first];
    const line = { row: this.row, chars: /** @type {string[]} */ ([]), looks: /** @type {string[]} */ ([]), size };
    for (const [text, look] of spans) {
      for (const one of cells(text)) {
        line.chars.push(one);
        line.looks.push(look);
      }
    }
    this.open = line;
    return line;
  }

  /** Put the row of the cursor back as spans. */
  _close() {
    const line = this.open;
    if (!line) return;
    this.open = null;
    const row = this.rows[line.row - this.first];
    this.stored += line.chars.length - row.size;
    this.rows[line.row - this.first] = { spans: joined(line), size: line.chars.length };
    this.changed = Math.min(this.changed, line.row);
  }

  /** Write text without anything special in it. */
  _write(/** @type {string} */ text) {
    this._reach();
    const row = this.rows[this.row - this.first];
    // Nearly all text goes to the end of a row that nobody goes back to.
    if (this.open?.row !== this.row && row.size === this.column && this._fits(text)) {
      const last = row.spans[row.spans.length - 1];
      if (last && last[1] === this.look) last[0] += text;
      else row.spans.push([text, this.look]);
      row.size += text.length;
      this.stored += text.length;
      this.column += text.length;
      this.changed = Math.min(this.changed, this.row);
      return;
    }
    for (const one of text) this._cell(one);
  }

  _fits(/** @type {string} */ text) {
    return this.column + text.length <= this.bounds.width;
  }

  _cell(/** @type {string} */ one, look = this.look) {
    const line = this._opened();
    const { chars, looks } = line;
    if (JOINS.test(one) && this.column > 0 && this.column <= chars.length) {
      if (chars[this.column - 1].length < 16) chars[this.column - 1] += one;
      return;
    }
    if (this.column >= this.bounds.width) {
      // A line without an end would grow for ever; that it is cut must be seen.
      chars[this.bounds.width - 1] = "…";
      looks[this.bounds.width - 1] = CONTROL;
      return;
    }
    while (chars.length < this.column) {
      chars.push(" ");
      looks.push("");
    }
    chars[this.column] = one;
    looks[this.column] = look;
    this.column++;
  }

  /** Write what stands for a control byte. */
  _shown(/** @type {string} */ text) {
    for (const one of text) this._cell(one, CONTROL);
  }

  _drop() {
    this._close();
    const { lines, characters } = this.bounds;
    let count = this.rows.length - 1 - lines; // the last one may only have been begun
    // In steps, because taking a line from the front of a list moves all the others.
    if (count < lines / 10 && this.stored <= characters) return;
    count = Math.max(count, 0);
    for (let at = 0; at < count; at++) this.stored -= this.rows[at].size;
    const room = this.stored > characters ? 0.9 * characters : characters;
    while (this.stored > room && count < this.rows.length - 1) this.stored -= this.rows[count++].size;
    this.rows.splice(0, count);
    this.first += count;
    this.row = Math.max(this.row, this.first);
  }
}

/** Where a pattern (a global one) is found from some place on; the end when it is not.
 * @param {RegExp} pattern @param {string} text @param {number} from
 */
function search(pattern, text, from) {
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? text.length;
}

/** The cells of a text: a letter with what joins it. @param {string} text @returns {string[]} */
function cells(text) {
  /** @type {string[]} */
  const found = [];
  for (const one of text) {
    if (found.length && JOINS.test(one)) found[found.length - 1] += one;
    else found.push(one);
  }
  return found;
}

/** @param {{ chars: string[], looks: string[] }} line @returns {Span[]} */
function joined({ chars, looks }) {
  /** @type {Span[]} */
  const spans = [];
  for (let at = 0; at < chars.length; ) {
    let end = at + 1;
    while (end < chars.length && looks[end] === looks[at]) end++;
    spans.push([chars.slice(at, end).join(""), looks[at]]);
    at = end;
  }
  return spans;
}

// Looks

/**
 * @typedef {object} Looks
 * @property {number | null} ink one of 16 colours
 * @property {number | null} ground
 * @property {Set<string>} ways bold, dim, italic, underline, strike, inverse
 */

/** @returns {Looks} */
function plain() {
  return { ink: null, ground: null, ways: new Set() };
}

const WAYS = new Map([
  [1, "bold"],
  [2, "dim"],
  [3, "italic"],
  [4, "underline"],
  [7, "inverse"],
  [9, "strike"],
]);
const UNDONE = new Map([
  [22, ["bold", "dim"]],
  [23, ["italic"]],
  [24, ["underline"]],
  [27, ["inverse"]],
  [29, ["strike"]],
]);

/**
 * Change the looks as `given` says, and return them as classes.
 * @param {Looks} looks @param {string} given such as `1;38;5;208`
 * @returns {string}
 */
function lookOf(looks, given) {
  // `38:2::255:0:0` is one parameter with parts, `38;2;255;0;0` several.
  const words = given.split(";").map((word) => word.split(":").map((part) => (part === "" ? 0 : Number(part))));
  for (let at = 0; at < words.length; at++) {
    const [code, ...parts] = words[at];
    if (code === 0) Object.assign(looks, plain());
    else if (code === 4 && parts[0] === 0) looks.ways.delete("underline");
    else if (code === 21) looks.ways.add("underline");
    else if (WAYS.has(code)) looks.ways.add(/** @type {string} */ (WAYS.get(code)));
    else if (UNDONE.has(code)) UNDONE.get(code)?.forEach((way) => looks.ways.delete(way));
    else if (code >= 30 && code <= 37) looks.ink = code - 30;
    else if (code >= 90 && code <= 97) looks.ink = code - 82;
    else if (code === 39) looks.ink = null;
    else if (code >= 40 && code <= 47) looks.ground = code - 40;
    else if (code >= 100 && code <= 107) looks.ground = code - 92;
    else if (code === 49) looks.ground = null;
    else if (code === 38 || code === 48) {
      let numbers = parts;
      if (!parts.length) {
        const size = words[at + 1]?.[0] === 2 ? 4 : 2;
        numbers = words.slice(at + 1, at + 1 + size).map(([number]) => number);
        at += size;
      } else if (parts[0] === 2 && parts.length > 4) {
        numbers = [2, ...parts.slice(2)]; // the second one names a space of colours
      }
      const colour = colourOf(numbers);
      if (code === 38) looks.ink = colour;
      else looks.ground = colour;
    }
  }
  return classes(looks);
}

/** @param {Looks} looks @returns {string} */
function classes({ ink, ground, ways }) {
  let [front, back] = [ink, ground];
  const found = [];
  if (ways.has("inverse")) {
    if (front === null && back === null) found.push("t-inverse");
    [front, back] = [back, front];
  }
  // On a coloured ground the letters keep the colour of text: only that is readable on all of them.
  if (back !== null) found.push(`t-b${back}`);
  else if (front !== null) found.push(`t-c${front}`);
  else if (ways.has("dim") && !ways.has("inverse")) found.push("t-dim");
  for (const way of ["bold", "italic", "underline", "strike"]) if (ways.has(way)) found.push(`t-${way}`);
  return found.join(" ");
}

/** @param {number[]} numbers `[5, n]` or `[2, r, g, b]` @returns {number | null} one of 16 */
function colourOf([kind, ...rest]) {
  if (kind === 2) return nearest(rest[0] ?? 0, rest[1] ?? 0, rest[2] ?? 0);
  const number = rest[0] ?? 0;
  if (kind !== 5 || number > 255) return null;
  if (number < 16) return number;
  if (number >= 232) return nearest(...grey(8 + 10 * (number - 232)));
  const level = (/** @type {number} */ n) => (n === 0 ? 0 : 55 + 40 * n);
  const cube = number - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** @param {number} level @returns {[number, number, number]} */
function grey(level) {
  return [level, level, level];
}

/**
 * The one of 16 colours with the same hue. How light it is, the theme decides.
 * @param {number} red @param {number} green @param {number} blue @returns {number}
 */
function nearest(red, green, blue) {
  const high = Math.max(red, green, blue);
  const span = high - Math.min(red, green, blue);
  if (span < 0.18 * Math.max(high, 1) || high < 30) {
    const light = (red + green + blue) / 3;
    return light < 64 ? 0 : light < 150 ? 8 : light < 220 ? 7 : 15;
  }
  let hue;
  if (high === red) hue = ((green - blue) / span + 6) % 6;
  else if (high === green) hue = (blue - red) / span + 2;
  else hue = (red - green) / span + 4;
  const colour = [1, 3, 2, 6, 4, 5][Math.round(hue) % 6];
  return high > 200 ? colour + 8 : colour;
}
