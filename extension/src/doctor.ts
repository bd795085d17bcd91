/** What `theseus doctor` says of the environment in which the server runs. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { h } from 'theseus-static/dom.js';

import { ask, inWords } from './server';

interface ICheck {
  what: string;
  level: string;
  found: string;
  fix: string;
}

const SHAPES: Record<string, string> = { ok: '✓', good: '✓', note: '•', warning: '!', broken: '✗' };

/** Ask, and show the answer in a dialog; it takes seconds. */
export async function showDoctor(): Promise<void> {
  const body = new Widget({ node: h('div', { class: 'jp-theseus-doctor' }, 'Looking …') });
  const asking = ask<{ checks: ICheck[] }>('doctor')
    .then(({ checks }) => body.node.replaceChildren(table(checks)))
    .catch(error => {
      body.node.textContent = inWords(error);
    });
  await showDialog({
    title: 'Theseus doctor: where JupyterLab runs',
    body,
    buttons: [Dialog.okButton({ label: 'Close' })]
  });
  await asking;
}

function table(checks: ICheck[]): HTMLElement {
  return h(
    'table',
    {},
    ...checks.map(({ what, level, found, fix }) =>
      h(
        'tr',
        { class: `t-is-${level}` },
        h('td', { title: level }, SHAPES[level] ?? level),
        h('th', { scope: 'row' }, what),
        h('td', {}, found, fix ? h('div', { class: 't-fix' }, fix) : null)
      )
    )
  );
}
