/** `%%theseus` cells: colours, completion, mistakes with their fix, help on hover. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { ICompletionProviderManager } from '@jupyterlab/completer';

import { cellExtension } from './editor';
import { CellProvider } from './provider';

const editing: JupyterFrontEndPlugin<void> = {
  id: 'theseus-jupyter:cells',
  description: 'Colours, mistakes and help in %%theseus cells.',
  autoStart: true,
  optional: [IEditorExtensionRegistry],
  activate: (_app: JupyterFrontEnd, registry: IEditorExtensionRegistry | null): void => {
    registry?.addExtension({
      name: 'theseus-cells',
      factory: () => EditorExtensionRegistry.createImmutableExtension(cellExtension())
    });
  }
};

const completing: JupyterFrontEndPlugin<void> = {
  id: 'theseus-jupyter:cells-completion',
  description: 'Completion in %%theseus cells, also while the kernel is busy.',
  autoStart: true,
  optional: [ICompletionProviderManager],
  activate: (_app: JupyterFrontEnd, manager: ICompletionProviderManager | null): void => {
    manager?.registerProvider(new CellProvider());
  }
};

export const plugins: JupyterFrontEndPlugin<void>[] = [editing, completing];
