/** The card of a run as a widget: in a document of its own, and below a cell. */

import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { cardView } from 'theseus-static/card.js';
import { h, keepKeys } from 'theseus-static/dom.js';

import { RunSource } from './source';

/** Follows its run while it is seen. */
export class RunView extends Widget {
  constructor(
    readonly run: string,
    shown: 'curves' | 'log' | 'both' = 'both'
  ) {
    super();
    this.addClass('jp-theseus-run-view');
    this.source = new RunSource(run);
    const view = cardView(this.source.store, { shown });
    this.stopView = view.stop;
    const root = h('div', { class: 'jp-theseus jp-theseus-run' }, view.element);
    keepKeys(root);
    this.node.append(root);
    this.onPage = () => this.look();
    document.addEventListener('visibilitychange', this.onPage);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    document.removeEventListener('visibilitychange', this.onPage);
    this.source.rest();
    this.stopView();
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.look();
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.look();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.look();
  }

  protected onBeforeDetach(message: Message): void {
    this.source.rest();
    super.onBeforeDetach(message);
  }

  private look(): void {
    if (this.isVisible && !document.hidden) {
      this.source.watch();
    } else {
      this.source.rest();
    }
  }

  private readonly source: RunSource;
  private readonly stopView: () => void;
  private readonly onPage: () => void;
}
