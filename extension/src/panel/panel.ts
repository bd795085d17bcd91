/** The panel "Theseus" of the side bar. */

import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { h } from 'theseus-static/dom.js';

import type { Runs } from '../runs';
import { HostsView } from './hosts';
import { RunsView } from './runs';

const SECOND = 1000;

/** Runs above, hosts below. Asks the server only while it is seen. */
export class Panel extends Widget {
  readonly hosts = new HostsView();

  constructor(
    private readonly runs: Runs,
    commands: CommandRegistry
  ) {
    super();
    this.id = 'theseus-panel';
    this.title.caption = 'Theseus: runs and hosts';
    this.addClass('jp-theseus-panel');
    this.list = new RunsView(runs, commands);
    this.node.append(h('div', { class: 't-tools' }, h('h2', {}, 'Runs')), this.list.element, this.hosts.element);
    this.onPage = () => this.look();
    document.addEventListener('visibilitychange', this.onPage);
  }

  dispose(): void {
    document.removeEventListener('visibilitychange', this.onPage);
    this.rest();
    this.list.dispose();
    super.dispose();
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.look();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.look();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.look();
  }

  protected onBeforeDetach(message: Message): void {
    this.rest();
    super.onBeforeDetach(message);
  }

  private look(): void {
    if (!this.isVisible || document.hidden) {
      this.rest();
    } else if (!this.clock) {
      this.clock = window.setInterval(() => {
        this.list.tick();
        this.hosts.tick();
      }, SECOND);
      this.runs.watch();
      void this.hosts.show();
    }
  }

  private rest(): void {
    window.clearInterval(this.clock);
    this.clock = 0;
    this.runs.stop();
  }

  private readonly list: RunsView;
  private readonly onPage: () => void;
  private clock = 0;
}
