/** The words of a `%%theseus` cell and their kinds: a pure function from text to ranges. */

export type Kind =
  | 'magic'
  | 'job'
  | 'option'
  | 'key'
  | 'string'
  | 'number'
  | 'constant'
  | 'reference'
  | 'comment'
  | 'mark'
  | 'plain';

export interface IRange {
  from: number;
  to: number;
  kind: Kind;
}

const MAGIC = '%%theseus';
const FIRST = /^\s*%%theseus(?=\s|$)/;
const NUMBER = /^[-+]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][-+]?\d+)?$|^[-+]?\.inf$|^\.nan$/i;
const CONSTANT = /^(?:true|false|yes|no|on|off|null|~|\?\?\?)$/i;
const KEY = /^(?:"[^"]*"|'[^']*'|[^\s#'"[\]{},&*!|>%@`?-][^:#{}[\],]*?|-[^\s:#{}[\],]+)(?=\s*:(?:\s|$))/;
const FLOW_KEY = /^(?:"[^"]*"|'[^']*'|[^\s#'"[\]{},:][^:#{}[\],]*?)(?=\s*:(?:[\s,}\]]|$))/;

/** Whether a cell is one of ours. */
export function isOurs(text: string): boolean {
  return FIRST.test(text);
}

/** Return what is in a cell, in order; all that is no space is in one of the ranges. */
export function ranges(text: string): IRange[] {
  const found: IRange[] = [];
  if (!isOurs(text)) {
    return found;
  }
  const begin = text.indexOf(MAGIC);
  const newline = text.indexOf('\n', begin);
  const end = newline < 0 ? text.length : newline;
  found.push({ from: begin, to: begin + MAGIC.length, kind: 'magic' });
  firstLine(text.slice(0, end), begin + MAGIC.length, found);
  body(text, end + 1, found);
  return found;
}

function firstLine(line: string, position: number, found: IRange[]): void {
  const word = /(?:"(?:\\.|[^"\\])*(?:"|\\?$)|'[^']*(?:'|$)|\\.|[^\s"'\\])+|\\$/g;
  word.lastIndex = position;
  let words = 0;
  let named = '';
  for (let match = word.exec(line); match; match = word.exec(line)) {
    const written = match[0];
    const from = match.index;
    const to = from + written.length;
    const equals = written.indexOf('=');
    if (written.startsWith('-') && written.length > 1) {
      const stop = equals < 0 ? to : from + equals;
      found.push({ from, to: stop, kind: 'option' });
      if (equals >= 0) {
        push(found, stop, stop + 1, 'mark');
        push(found, stop + 1, to, kindOf(written.slice(equals + 1)));
      }
      named = equals < 0 ? written : '';
      continue;
    }
    const value = named !== '' && !SWITCHES.has(named);
    const kind = kindOf(written);
    push(found, from, to, !value && words === 0 ? 'job' : kind);
    words += value ? 0 : 1;
    named = '';
  }
}

const SWITCHES = new Set(
  ['fsdp', 'zero', 'expand', 'run', 'submit', 'dry-run', 'help'].map(one => `--${one}`)
);

function body(text: string, start: number, found: IRange[]): void {
  let depth = 0; // of braces that are open
  let block = -1; // the indentation of a key whose value is a block of text
  let from = start;
  while (from < text.length) {
    const newline = text.indexOf('\n', from);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(from, end);
    const indent = line.length - line.trimStart().length;
    if (block >= 0 && (line.trim() === '' || indent > block)) {
      push(found, from + indent, from + line.trimEnd().length, 'string');
    } else {
      block = -1;
      depth = oneLine(line, from, depth, found);
      if (depth === 0 && /:\s+[|>][-+\d]*\s*(?:#.*)?$/.test(line)) {
        block = indent;
      }
    }
    from = end + 1;
  }
}

/** Add the words of a line that begins at `base`, and return how many braces are open behind it. */
function oneLine(line: string, base: number, depth: number, found: IRange[]): number {
  let at = 0;
  let keyMayCome = true;
  const add = (length: number, kind: Kind): void => {
    push(found, base + at, base + at + length, kind);
    at += length;
  };
  while (at < line.length) {
    const rest = line.slice(at);
    const letter = rest.charAt(0);
    if (/\s/.test(letter)) {
      at += 1;
    } else if (letter === '#' && (at === 0 || /\s/.test(line.charAt(at - 1)))) {
      add(rest.trimEnd().length, 'comment');
      at = line.length;
    } else if (keyMayCome && (depth > 0 ? FLOW_KEY : KEY).test(rest)) {
      add((depth > 0 ? FLOW_KEY : KEY).exec(rest)![0].length, 'key');
      keyMayCome = false;
    } else if (letter === '-' && /^-(?:\s|$)/.test(rest) && depth === 0) {
      add(1, 'mark');
    } else if (letter === '{' || letter === '[') {
      depth += 1;
      keyMayCome = letter === '{';
      add(1, 'mark');
    } else if ((letter === '}' || letter === ']') && depth > 0) {
      depth -= 1;
      add(1, 'mark');
    } else if (letter === ',' && depth > 0) {
      keyMayCome = true;
      add(1, 'mark');
    } else if (letter === ':') {
      keyMayCome = false;
      add(1, 'mark');
    } else if (letter === '"' || letter === "'") {
      add(/^(?:"(?:\\.|[^"\\])*(?:"|$|\\$)|'(?:''|[^'])*(?:'|$))/.exec(rest)![0].length, 'string');
    } else if (rest.startsWith('${')) {
      add(reference(rest), 'reference');
    } else {
      const word = (depth > 0 ? /^(?:[^,[\]{}\s$]|\$(?!\{))+/ : /^(?:[^\s$]|\$(?!\{))+/).exec(rest);
      const written = word ? word[0] : letter;
      add(written.length, kindOf(written));
      keyMayCome = false;
    }
  }
  return depth;
}

/** Return the length of a `${…}` at the beginning of a text. */
function reference(text: string): number {
  let depth = 0;
  for (let at = 1; at < text.length; at++) {
    depth += text.charAt(at) === '{' ? 1 : text.charAt(at) === '}' ? -1 : 0;
    if (depth === 0) {
      return at + 1;
    }
  }
  return text.trimEnd().length;
}

function kindOf(word: string): Kind {
  if (/^["']/.test(word)) {
    return 'string';
  }
  return NUMBER.test(word) ? 'number' : CONSTANT.test(word) ? 'constant' : 'plain';
}

function push(found: IRange[], from: number, to: number, kind: Kind): void {
  if (to > from) {
    found.push({ from, to, kind });
  }
}
