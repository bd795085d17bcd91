/** The list of runs in the side bar. */

import type { CommandRegistry } from '@lumino/commands';
import { h } from 'theseus-static/dom.js';

import { RUN_COMMANDS, run as commandOf } from '../run/names';
import type { IRun, Runs } from '../runs';
import { inWords } from '../server';
import { span } from '../words';
import { openMenu } from './menu';
import { projects } from './rows';
import { spark } from './spark';

const STATES = ['any', 'active', 'running', 'queued', 'finished', 'failed', 'cancelled', 'lost'];

/** What the list says when there is nothing in it. */
const FIRST = 'No run yet. Start one with %%theseus … --submit in a notebook, or theseus submit in a terminal.';

interface IRow {
  key: string;
  element: HTMLElement;
}

/** Draws the runs into an element of its own; rows that did not change stay, with focus and all. */
export class RunsView {
  readonly element: HTMLElement;

  constructor(
    private readonly runs: Runs,
    private readonly commands: CommandRegistry
  ) {
    this.filter = h('input', {
      type: 'search',
      placeholder: 'Filter runs',
      'aria-label': 'Show runs in which these words occur',
      oninput: () => this.draw()
    }) as HTMLInputElement;
    this.state = h(
      'select',
      { 'aria-label': 'Show runs in this state', onchange: () => this.draw() },
      ...STATES.map(state => h('option', { value: state }, state === 'any' ? 'any state' : state))
    ) as HTMLSelectElement;
    this.old = h('input', {
      type: 'checkbox',
      onchange: () => {
        runs.everything = this.old.checked;
      }
    }) as HTMLInputElement;
    this.element = h(
      'section',
      { class: 't-runs', 'aria-label': 'Runs' },
      h(
        'div',
        { class: 't-tools' },
        this.filter,
        this.state,
        h('label', { title: 'Also those that ended over a week ago' }, this.old, ' old')
      ),
      this.told,
      this.list
    );
    runs.changed.connect(this.draw, this);
    this.draw();
  }

  /** Let the times of runs at work go on; called once a second while the panel is seen. */
  tick(): void {
    const since = (Date.now() - this.runs.at) / 1000;
    for (const run of this.runs.list) {
      const place = this.times.get(run.id);
      if (place && run.elapsed !== null && run.state === 'running') {
        place.textContent = span(run.elapsed + since);
      }
    }
  }

  dispose(): void {
    this.runs.changed.disconnect(this.draw, this);
  }

  private draw(): void {
    const { list, trouble, known } = this.runs;
    const found = projects(list, this.filter.value, this.state.value);
    const told = trouble
      ? inWords(trouble)
      : !known
        ? 'Asking the server …'
        : !list.length
          ? FIRST
          : !found.length
            ? 'No run is like that.'
            : '';
    this.told.textContent = told;
    this.told.hidden = !told;
    this.told.classList.toggle('t-bad', trouble !== null);
    const several = found.length > 1;
    const elements: HTMLElement[] = [];
    const seen = new Set<string>();
    for (const { head, runs } of found) {
      if (several || head !== 'general') {
        elements.push(this.head(head, runs.length));
      }
      for (const run of runs) {
        seen.add(run.id);
        elements.push(this.row(run));
      }
    }
    for (const id of this.rows.keys()) {
      if (!seen.has(id)) {
        this.rows.delete(id);
        this.times.delete(id);
      }
    }
    arrange(this.list, elements);
    this.tick();
  }

  private head(text: string, count: number): HTMLElement {
    const known = this.heads.get(text) ?? h('h3', {});
    this.heads.set(text, known);
    known.textContent = `${text} · ${count}`;
    return known;
  }

  private row(run: IRun): HTMLElement {
    const key = JSON.stringify({ ...run, elapsed: run.state === 'running' ? 0 : run.elapsed });
    const known = this.rows.get(run.id);
    if (known?.key === key) {
      return known.element;
    }
    const element = known?.element ?? h('div', { class: 't-row', role: 'listitem' });
    // A row is drawn anew under the hands of who uses it: what had the focus has it again.
    const focused = element.contains(document.activeElement)
      ? (document.activeElement as HTMLElement).dataset.part
      : undefined;
    element.replaceChildren(...this.parts(run));
    if (focused) {
      element.querySelector<HTMLElement>(`[data-part=${focused}]`)?.focus();
    }
    this.rows.set(run.id, { key, element });
    return element;
  }

  private parts(run: IRun): Node[] {
    const time = h('span', { class: 't-time' }, run.elapsed === null ? '' : span(run.elapsed));
    this.times.set(run.id, time);
    const open = h(
      'button',
      {
        type: 'button',
        class: 't-open',
        'data-part': 'open',
        title: `${run.name} ${run.id}: open its log`,
        onclick: () => void this.commands.execute(commandOf.log, { id: run.id })
      },
      run.name
    );
    const more: HTMLElement = h(
      'button',
      {
        type: 'button',
        class: 't-more',
        'data-part': 'more',
        'aria-label': `What can be done with ${run.name}`,
        'aria-haspopup': 'menu',
        onclick: () => openMenu(this.commands, RUN_COMMANDS, { id: run.id }, more)
      },
      '⋯'
    );
    const state = h(
      'span',
      { class: `t-badge t-is-${run.state}`, title: run.reason ?? '' },
      h('span', { 'aria-hidden': 'true' }, run.shape),
      ` ${run.state}`
    );
    const curve = spark(run.spark);
    const trouble = run.connection || (run.state === 'failed' || run.state === 'lost' ? run.reason : '');
    return [
      h('div', { class: 't-line' }, open, h('code', {}, run.id), h('span', { class: 't-push' }), more),
      h('div', { class: 't-line' }, state, h('span', {}, run.host), time, h('span', { class: 't-push' }), curve),
      run.position
        ? h('div', { class: 't-quiet' }, [run.position, run.remaining].filter(Boolean).join(' · '))
        : null,
      run.fraction !== null && !run.ended ? bar(run.fraction) : null,
      trouble ? h('div', { class: 't-trouble' }, trouble) : null,
      run.last_line ? h('div', { class: 't-last', title: run.last_line }, run.last_line) : null
    ].filter((part): part is HTMLElement => part !== null);
  }

  private readonly filter: HTMLInputElement;
  private readonly state: HTMLSelectElement;
  private readonly old: HTMLInputElement;
  private readonly told = h('div', { class: 't-told', role: 'status' });
  private readonly list = h('div', { class: 't-list', role: 'list' });
  private readonly rows = new Map<string, IRow>();
  private readonly times = new Map<string, HTMLElement>();
  private readonly heads = new Map<string, HTMLElement>();
}

function bar(fraction: number): HTMLElement {
  const percent = Math.round(fraction * 1000) / 10;
  return h(
    'div',
    {
      class: 't-bar',
      role: 'progressbar',
      'aria-label': 'progress',
      'aria-valuemin': 0,
      'aria-valuemax': 100,
      'aria-valuenow': Math.round(percent)
    },
    h('div', { style: `width:${percent}%` })
  );
}

/** Give a box these children in this order, moving only those that stand elsewhere. */
function arrange(box: HTMLElement, wanted: HTMLElement[]): void {
  const keep = new Set<Element>(wanted);
  for (const child of [...box.children]) {
    if (!keep.has(child)) {
      child.remove();
    }
  }
  wanted.forEach((element, at) => {
    if (box.children[at] !== element) {
      box.insertBefore(element, box.children[at] ?? null);
    }
  });
}
