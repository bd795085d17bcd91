/** The colours of a cell: which words are what. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

// What is built for a browser has no names that node takes for modules; this file imports nothing.
const source = readFileSync(new URL('../lib/cells/colour.js', import.meta.url), 'utf8');
const { isOurs, ranges } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

function seen(text) {
  return ranges(text)
    .filter(one => one.kind !== 'mark')
    .map(one => `${one.kind} ${text.slice(one.from, one.to)}`);
}

const body = text => seen(`%%theseus a b\n${text}`).slice(3);

test('the first line: magic, job, name, options, quoted words', () => {
  assert.deepEqual(seen(`%%theseus gpt/train 'my run' --gpus 4 --fsdp --chip="h100" more`), [
    'magic %%theseus',
    'job gpt/train',
    "string 'my run'",
    'option --gpus',
    'number 4',
    'option --fsdp',
    'option --chip',
    'string "h100"',
    'plain more'
  ]);
  assert.deepEqual(seen('%%theseus --root ./x job'), [
    'magic %%theseus',
    'option --root',
    'plain ./x',
    'job job'
  ]);
});

test('keys and values, nested, dotted, in braces, in lists', () => {
  assert.deepEqual(body('a:\n  b.c: 32_768\n  d: yes # why\n'), [
    'key a',
    'key b.c',
    'number 32_768',
    'key d',
    'constant yes',
    'comment # why'
  ]);
  assert.deepEqual(body("a: {b: -1e-3, 'c d': [x, null, \"y\"]}\ne: 1"), [
    'key a',
    'key b',
    'number -1e-3',
    "key 'c d'",
    'plain x',
    'constant null',
    'string "y"',
    'key e',
    'number 1'
  ]);
  assert.deepEqual(body('a:\n- 1\n- b: c:d\n'), ['key a', 'number 1', 'key b', 'plain c:d']);
  assert.deepEqual(body('a: {b: 1,\n  c: 2}\n'), ['key a', 'key b', 'number 1', 'key c', 'number 2']);
});

test('references, blocks of text, and a sign that is no comment', () => {
  assert.deepEqual(body('a: ${b.c}\nd: x#y\ne: ${{ {1: 2}[1] }}'), [
    'key a',
    'reference ${b.c}',
    'key d',
    'plain x#y',
    'key e',
    'reference ${{ {1: 2}[1] }}'
  ]);
  assert.deepEqual(body('a: |\n  b: 1\n\n  # c\nd: 2'), [
    'key a',
    'plain |',
    'string b: 1',
    'string # c',
    'key d',
    'number 2'
  ]);
});

test('other cells have none', () => {
  for (const text of ['', 'print(1)', '# %%theseus\na: 1', '%theseus jobs', '%%theseusx a']) {
    assert.equal(isOurs(text), false);
    assert.deepEqual(ranges(text), []);
  }
});

test('whatever the text, ranges are in order, apart, and cover all that is no space', () => {
  const letters = 'ab1.:{}[],#-$"\'|>&*!%@?\\/= \n\t😀';
  let state = 1;
  const next = below => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
  for (let round = 0; round < 3000; round++) {
    let text = '%%theseus ';
    for (let length = next(40); length > 0; length--) {
      text += letters.charAt(next(letters.length));
    }
    let end = 0;
    for (const one of ranges(text)) {
      assert.ok(one.from >= end && one.to > one.from, JSON.stringify(text));
      assert.equal(text.slice(end, one.from).trim(), '', JSON.stringify(text));
      end = one.to;
    }
    assert.equal(text.slice(end).trim(), '', JSON.stringify(text));
  }
});

test('a long line takes no time', () => {
  const begin = Date.now();
  for (const part of ['a', '{', '"', '${', 'a: ', '- ', 'a ']) {
    ranges(`%%theseus a b\n${part.repeat(5000)}`);
  }
  assert.ok(Date.now() - begin < 2000, `${Date.now() - begin} ms`);
});
