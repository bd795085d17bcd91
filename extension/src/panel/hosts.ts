/** The list of hosts in the side bar: what they have, what is free there, and when that was seen. */

import { h } from 'theseus-static/dom.js';

import { ask, inWords, work } from '../server';
import { clock, span } from '../words';

interface IHost {
  name: string;
  type: string;
  chips?: Record<string, number>;
  total?: Record<string, number> | null;
  free?: Record<string, number> | null;
  queues?: string[];
  fit?: 'now' | 'queue' | 'no' | 'unknown';
  reason?: string | null;
  starts?: number | null;
  probed?: number | null;
}

interface IAnswer {
  hosts: IHost[];
  inventory: string | null;
  now: number;
}

const NONE = 'No host is listed yet. theseus hosts add ALIAS adds one of your ssh hosts; this machine always works.';

/** Draws the hosts into an element of its own; asks when it is told to. */
export class HostsView {
  readonly element: HTMLElement;

  constructor() {
    this.again = h(
      'button',
      { type: 'button', title: 'Ask every host now', onclick: () => void this.refresh() },
      'Refresh'
    ) as HTMLButtonElement;
    this.element = h(
      'section',
      { class: 't-hosts', 'aria-label': 'Hosts' },
      h('div', { class: 't-tools' }, h('h2', {}, 'Hosts'), h('span', { class: 't-push' }), this.again),
      this.told,
      this.list
    );
  }

  /** Show what was last seen of them. */
  async show(): Promise<void> {
    try {
      this.draw(await ask<IAnswer>('hosts'));
    } catch (error) {
      this.say(inWords(error), true);
    }
  }

  /** Ask them all. */
  async refresh(): Promise<void> {
    this.again.disabled = true;
    this.say('Asking every host …');
    try {
      await work('hosts/refresh', {}, message => this.say(message || 'Asking every host …'));
      this.draw(await ask<IAnswer>('hosts'));
    } catch (error) {
      this.say(inWords(error), true);
    } finally {
      this.again.disabled = false;
    }
  }

  /** Let the times since they were asked go on. */
  tick(): void {
    const now = this.now + (Date.now() - this.at) / 1000;
    for (const [place, probed] of this.times) {
      place.textContent = `${span(now - probed)} ago`;
    }
  }

  private draw(answer: IAnswer): void {
    this.say(answer.hosts.length ? '' : NONE);
    this.now = answer.now;
    this.at = Date.now();
    this.times.clear();
    this.list.replaceChildren(...answer.hosts.map(host => this.row(host)));
    this.tick();
  }

  private row(host: IHost): HTMLElement {
    const time = h('span', { class: 't-time' }, 'not asked yet');
    if (typeof host.probed === 'number') {
      this.times.set(time, host.probed);
    }
    return h(
      'div',
      { class: 't-row', role: 'listitem' },
      h(
        'div',
        { class: 't-line' },
        h('strong', {}, host.name),
        h('span', { class: 't-quiet' }, [host.type, ...(host.queues ?? [])].join(' · ')),
        h('span', { class: 't-push' }),
        time
      ),
      ...chips(host),
      waiting(host),
      host.reason ? h('div', { class: 't-reason' }, host.reason) : null
    );
  }

  private say(text: string, bad = false): void {
    this.told.textContent = text;
    this.told.hidden = !text;
    this.told.classList.toggle('t-bad', bad);
  }

  private now = 0;
  private at = 0;
  private readonly times = new Map<HTMLElement, number>();
  private readonly again: HTMLButtonElement;
  private readonly told = h('div', { class: 't-told', role: 'status' });
  private readonly list = h('div', { class: 't-list', role: 'list' });
}

/** That a run would wait there, and until when as far as the queue says. */
function waiting(host: IHost): HTMLElement | null {
  if (host.fit !== 'queue') {
    return null;
  }
  const start = typeof host.starts === 'number' ? `, start ≈ ${clock(host.starts)}` : '';
  return h('div', { class: 't-line' }, `a run would queue${start}`);
}

function chips(host: IHost): HTMLElement[] {
  const seen = host.total && Object.keys(host.total).length ? host.total : null;
  return Object.entries(seen ?? host.chips ?? {}).map(([chip, count]) => {
    const free = seen ? (host.free?.[chip] ?? 0) : null;
    const text = free === null ? `${count} × ${chip}` : `${free} of ${count} × ${chip} free`;
    return h('div', { class: 't-line' }, squares(count, free), h('span', {}, text));
  });
}

/** One square a chip, those in use filled: the words beside say the same. */
function squares(count: number, free: number | null): HTMLElement | null {
  if (free === null || count > 16) {
    return null;
  }
  const busy = count - free;
  return h('span', { class: 't-squares', 'aria-hidden': 'true' }, '▪'.repeat(busy) + '▫'.repeat(free));
}
