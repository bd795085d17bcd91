/** A run that a notebook has kept: live where the registry knows it, as it was kept elsewhere. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Panel } from '@lumino/widgets';

import { isKnown } from './source';
import { RunView } from './view';

const MIME = 'application/vnd.theseus.run+json';
const RANK = 50; // before HTML, which is the same run as it was when it was saved

/** What a notebook keeps of a run, as far as it is looked at here. */
interface IKept {
  id?: unknown;
}

class Renderer extends Panel implements IRenderMime.IRenderer {
  constructor(private readonly registry: IRenderMimeRegistry) {
    super();
    this.addClass('jp-theseus-kept');
  }

  /** Show the run; called again when the kernel has told something new of it. */
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { id } = model.data[MIME] as IKept;
    const name = typeof id === 'string' ? id : '';
    if (this.live?.run === name) {
      return; // it follows the run itself
    }
    if (!this.known.has(name)) {
      this.known.set(name, isKnown(name));
    }
    if (name && (await this.known.get(name)) && !this.besideAnother()) {
      this.clear();
      this.live = new RunView(name);
      this.addWidget(this.live);
    } else {
      await this.asKept(model);
    }
  }

  /** The next best form of the same output. */
  private async asKept(model: IRenderMime.IMimeModel): Promise<void> {
    const rest = { ...model.data };
    delete rest[MIME];
    const type = this.registry.preferredMimeType(rest, 'any');
    if (!type) {
      return;
    }
    const made = this.registry.createRenderer(type);
    await made.renderModel(this.registry.createModel({ data: rest, trusted: model.trusted }));
    this.clear();
    this.addWidget(made);
  }

  /** Whether a widget of the kernel shows the same run in the same output already. */
  private besideAnother(): boolean {
    const area = this.node.closest('.jp-OutputArea');
    return Boolean(area?.querySelector('.jp-theseus-run:not(.jp-theseus-kept *)'));
  }

  private clear(): void {
    this.live = null;
    for (const widget of [...this.widgets]) {
      widget.dispose();
    }
  }

  private readonly known = new Map<string, Promise<boolean>>();
  private live: RunView | null = null;
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'theseus-jupyter:renderer',
  description: 'Runs that a notebook has kept, live.',
  autoStart: true,
  optional: [IRenderMimeRegistry],
  activate: (_app: JupyterFrontEnd, registry: IRenderMimeRegistry | null): void => {
    registry?.addFactory(
      {
        safe: true,
        mimeTypes: [MIME],
        createRenderer: () => new Renderer(registry)
      },
      RANK
    );
  }
};

export default plugin;
