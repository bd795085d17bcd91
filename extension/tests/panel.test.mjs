/** What the panel shows of which runs, and how a stream is read. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

async function built(name) {
  const source = readFileSync(new URL(`../lib/${name}.js`, import.meta.url), 'utf8');
  return import(`data:text/javascript,${encodeURIComponent(source)}`);
}

const { projects } = await built('panel/rows');
const { pieces } = await built('panel/spark');
const { isRecipe, submitted } = await built('recipes/names');
const { Events } = await built('events');
const { clock, span } = await built('words');

const run = (name, more = {}) => ({
  name, id: 'abcdef12', project: 'general', group: 'default', host: 'me', state: 'running', ended: false, ...more
});

test('runs stand under their project, in the order of the newest', () => {
  const found = projects([run('c', { project: 'x' }), run('b'), run('a', { project: 'x' }), run('d', { group: 'g' })], '', 'any');
  assert.deepEqual(
    found.map(one => [one.head, one.runs.map(one => one.name)]),
    [['x', ['c', 'a']], ['general', ['b']], ['general / g', ['d']]]
  );
});

test('every word must occur somewhere, in any case', () => {
  const runs = [run('train-gpt', { host: 'BigBox' }), run('tokens')];
  const named = words => projects(runs, words, 'any').flatMap(one => one.runs.map(one => one.name));
  assert.deepEqual(named('bigbox GPT'), ['train-gpt']);
  assert.deepEqual(named('bigbox tokens'), []);
  assert.deepEqual(named('  '), ['train-gpt', 'tokens']);
});

test('active runs are those that have not ended', () => {
  const runs = [run('a', { state: 'queued' }), run('b', { state: 'failed', ended: true })];
  const named = state => projects(runs, '', state).flatMap(one => one.runs.map(one => one.name));
  assert.deepEqual(named('active'), ['a']);
  assert.deepEqual(named('failed'), ['b']);
});

test('a sparkline falls from the top left to the bottom right, and breaks where no number is', () => {
  assert.deepEqual(pieces([2, 1, 0]), ['0.0,1.0 28.0,9.0 56.0,17.0']);
  assert.deepEqual(pieces([3, 2, null, 1, 0]).length, 2);
  assert.deepEqual(pieces([1, null, 2]), []); // no two beside each other
  assert.deepEqual(pieces([]), []);
  assert.ok(!pieces([5, 5, 5])[0].includes('NaN'));
});

test('a stream is the same however it is cut', () => {
  const text = ': hello\n\nevent: log\nid: 7\ndata: {"text":"a: b\\n\\u2028"}\n\n\nevent: card\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata: 3\n\nevent: cut\ndata: 1';
  const whole = [['log', { text: 'a: b\n\u2028' }], ['card', { a: 1 }], ['message', 3]];
  for (let size = 1; size <= text.length; size++) {
    const heard = [];
    const events = new Events((event, data) => heard.push([event, data]));
    for (let at = 0; at < text.length; at += size) {
      events.take(text.slice(at, at + size));
    }
    assert.deepEqual(heard, whole, `in pieces of ${size}`);
  }
});

test('times are said in two units', () => {
  assert.deepEqual([0.4, 59, 61, 3600, 90061].map(span), ['0 s', '59 s', '1 min 1 s', '1 h 0 min', '1 d 1 h']);
});

test('a start today is a time, another has its day', () => {
  const now = new Date(2026, 10, 30, 9, 5);
  assert.equal(clock(new Date(2026, 10, 30, 14, 20).getTime() / 1000, now), '14:20');
  assert.equal(clock(new Date(2026, 11, 1, 4, 2).getTime() / 1000, now), '2026-12-01 04:02');
});

test('a text with a job and a config is a recipe, and no other', () => {
  assert.ok(isRecipe('v: 1\njob: gpt/train/pretrain\nconfig:\n  a: 1\n'));
  assert.ok(!isRecipe('jobs:\n  build:\n    config: x\n'));
  assert.ok(!isRecipe('job: a\n'));
});

test('a cell is sent by --submit on its first line, once', () => {
  assert.equal(submitted('%%theseus a\nb: --submit\n'), '%%theseus a --submit\nb: --submit\n');
  assert.equal(submitted('%%theseus a --submit\n'), '%%theseus a --submit\n');
});
