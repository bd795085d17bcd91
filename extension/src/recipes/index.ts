/** New notebooks and runs: the launcher, the palette, and recipes (`out.yaml`) in the file browser. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, showErrorMessage } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { FileDialog, IDefaultFileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { showDoctor } from '../doctor';
import { icon } from '../icon';
import { names as panel } from '../panel';
import { ask, inWords } from '../server';
import { text } from '../words';
import { isYaml, recipe, submitted } from './names';

const CATEGORY = 'Theseus';
const FILE = '.jp-DirListing-item[data-isdir="false"]'; // in the file browser

const names = {
  notebook: 'theseus:new-notebook',
  doctor: 'theseus:doctor'
};

/** What a new notebook begins with: enough to see a form at once. */
const FIRST = [
  '%load_ext theseus',
  '%%theseus gpt/train/pretrain my-first-run --root ./theseus-runs\narchitecture: {n_layers: 4, n_head: 4, n_embd: 128}'
];

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'theseus-jupyter:recipes',
  description: 'New training notebooks and runs, from the launcher, the palette and the file browser.',
  autoStart: true,
  optional: [ICommandPalette, ILauncher, IDefaultFileBrowser, IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    browser: IDefaultFileBrowser | null,
    browsers: IFileBrowserFactory | null
  ): void => {
    const { commands } = app;

    const opened = async (cells: string[], folder: string): Promise<void> => {
      const made = (await commands.execute('notebook:create-new', {
        cwd: folder,
        kernelName: 'python3',
        activate: true
      })) as NotebookPanel;
      await made.context.ready;
      const model = made.content.model?.sharedModel;
      model?.transact(() => {
        model.deleteCellRange(0, model.cells.length);
        model.insertCells(
          0,
          cells.map(source => ({ cell_type: 'code' as const, source }))
        );
      });
      made.content.activeCellIndex = 0;
    };

    const folder = (args: ReadonlyPartialJSONObject): string =>
      text(args.cwd) || (browser?.model.path ?? '');

    const fromRecipe = async (path: string, submit: boolean): Promise<void> => {
      try {
        const { notebook } = await ask<{ notebook: string }>('recipes/open', { path });
        const cell = submit ? submitted(notebook) : notebook;
        await opened(['%load_ext theseus', cell], PathExt.dirname(path));
      } catch (error) {
        await showErrorMessage(`${PathExt.basename(path)} is not opened as a run`, inWords(error));
      }
    };

    const selected = (): string => {
      const items = [...(browsers?.tracker.currentWidget?.selectedItems() ?? [])];
      return items.length === 1 && isYaml(items[0]?.path ?? '') ? (items[0]?.path ?? '') : '';
    };

    commands.addCommand(names.notebook, {
      label: args => (args.isPalette ? 'New training notebook' : 'Training notebook'),
      caption: 'A notebook that begins with a training run',
      icon: args => (args.isPalette ? undefined : icon),
      execute: args => opened(FIRST, folder(args))
    });
    commands.addCommand(recipe.new, {
      label: args => (args.isPalette ? 'New run from YAML…' : 'Run from YAML…'),
      caption: 'A notebook from a recipe that was saved, such as out.yaml',
      icon: args => (args.isPalette ? undefined : icon),
      isEnabled: () => Boolean(browser),
      execute: async () => {
        if (!browser) {
          return;
        }
        const chosen = await FileDialog.getOpenFiles({
          manager: browser.model.manager,
          title: 'Choose a recipe',
          filter: one => (one.type === 'directory' || isYaml(one.name) ? {} : null)
        });
        const path = chosen.value?.[0]?.path;
        if (chosen.button.accept && path) {
          await fromRecipe(path, false);
        }
      }
    });
    commands.addCommand(recipe.form, {
      label: 'Edit as form',
      icon,
      isVisible: args => Boolean(args.path ?? selected()),
      execute: args => fromRecipe(text(args.path) || selected(), false)
    });
    commands.addCommand(recipe.submit, {
      label: 'Submit…',
      icon,
      isVisible: args => Boolean(args.path ?? selected()),
      execute: args => fromRecipe(text(args.path) || selected(), true)
    });
    commands.addCommand(names.doctor, {
      label: 'Doctor: what is installed, and what is missing',
      execute: showDoctor
    });

    for (const [rank, command] of [recipe.form, recipe.submit].entries()) {
      app.contextMenu.addItem({ command, selector: FILE, rank: 1 + rank / 10 });
    }
    for (const command of [names.notebook, recipe.new]) {
      launcher?.add({ command, category: CATEGORY });
      palette?.addItem({ command, category: CATEGORY, args: { isPalette: true } });
    }
    for (const command of [panel.runs, panel.hosts, names.doctor]) {
      palette?.addItem({ command, category: CATEGORY });
    }
  }
};

export default plugin;
