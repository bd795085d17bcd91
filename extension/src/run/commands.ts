/** What can be done with a run, from the panel's menu and from the palette. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import {
  Clipboard,
  Dialog,
  InputDialog,
  MainAreaWidget,
  Notification,
  showDialog,
  WidgetTracker
} from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { icon } from '../icon';
import { IRuns } from '../model';
import type { IRun } from '../runs';
import { inWords, work } from '../server';
import { text } from '../words';
import { run as command } from './names';
import { RunView } from './view';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'theseus-jupyter:runs',
  description: 'The log document of a run, and what can be done with a run.',
  autoStart: true,
  requires: [IRuns],
  optional: [ILayoutRestorer, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    runs: IRuns,
    restorer: ILayoutRestorer | null,
    notebooks: INotebookTracker | null
  ): void => {
    const { commands, shell } = app;
    const open = new WidgetTracker<MainAreaWidget<RunView>>({ namespace: 'theseus-run' });
    const known = (args: ReadonlyPartialJSONObject): IRun | undefined => runs.get(text(args.id));
    const can = (word: string) => (args: ReadonlyPartialJSONObject) =>
      known(args)?.can.includes(word) ?? false;

    const show = (args: ReadonlyPartialJSONObject, shown: 'log' | 'both'): void => {
      const id = text(args.id);
      const there = open.find(widget => widget.content.run === id);
      if (there) {
        shell.activateById(there.id);
        return;
      }
      const widget = new MainAreaWidget({ content: new RunView(id, shown) });
      widget.id = `theseus-run-${id}`;
      widget.title.label = runs.get(id)?.name ?? (text(args.name) || id);
      widget.title.caption = `Theseus run ${id}`;
      widget.title.icon = icon;
      widget.title.closable = true;
      shell.add(widget, 'main');
      shell.activateById(widget.id);
      void open.add(widget);
    };

    commands.addCommand(command.log, { label: 'Open log', execute: args => show(args, 'log') });
    commands.addCommand(command.card, {
      label: 'Watch: curves and log',
      execute: args => show(args, 'both')
    });
    void restorer?.restore(open, {
      command: command.card,
      args: widget => ({ id: widget.content.run, name: widget.title.label }),
      name: widget => widget.content.run
    });

    commands.addCommand(command.cancel, {
      label: 'Cancel…',
      isVisible: can('cancel'),
      execute: async args => {
        const run = known(args);
        if (run && (await sure(run))) {
          await act(run, 'cancel', {}, `Cancelling ${run.name} …`);
        }
      }
    });
    commands.addCommand(command.fetch, {
      label: 'Fetch…',
      isVisible: can('fetch'),
      execute: async args => {
        const run = known(args);
        const asked = await InputDialog.getText({
          title: `Fetch the files of ${run?.name}`,
          label: 'Into which folder? Empty: one named after the run.',
          okLabel: 'Fetch'
        });
        if (run && asked.button.accept) {
          const to = (asked.value ?? '').trim();
          await act(run, 'fetch', to ? { to } : {}, `Fetching ${run.name} …`);
        }
      }
    });
    commands.addCommand(command.resubmit, {
      label: 'Resubmit',
      isVisible: can('resubmit'),
      execute: async args => {
        const run = known(args);
        if (run) {
          await act(run, 'resubmit', {}, `Submitting ${run.name} again …`);
        }
      }
    });
    commands.addCommand(command.copy, {
      label: 'Copy id',
      execute: args => Clipboard.copyToSystem(text(args.id))
    });
    commands.addCommand(command.cell, {
      label: 'Insert cell that watches it',
      isVisible: () => Boolean(notebooks?.currentWidget),
      execute: args => {
        const notebook = notebooks?.currentWidget?.content;
        if (notebook) {
          NotebookActions.insertBelow(notebook);
          notebook.activeCell?.model.sharedModel.setSource(`%theseus watch ${text(args.id)}`);
        }
      }
    });
    commands.addCommand(command.reveal, {
      label: 'Show folder in the file browser',
      isVisible: args => typeof known(args)?.path === 'string',
      execute: args => commands.execute('filebrowser:open-path', { path: known(args)?.path ?? '' })
    });
  }
};

async function sure(run: IRun): Promise<boolean> {
  const asked = await showDialog({
    title: 'Cancel this run?',
    body: `It ends '${run.name}' (${run.id}) on ${run.host}, with every process of it.`,
    buttons: [
      Dialog.cancelButton({ label: 'Keep it running' }),
      Dialog.warnButton({ label: 'End this run' })
    ],
    defaultButton: 0
  });
  return asked.button.accept;
}

/** Let the server do it; a notice says how it goes, and what became of it. */
async function act(
  run: IRun,
  what: string,
  body: Record<string, unknown>,
  begun: string
): Promise<void> {
  const notice = Notification.emit(begun, 'in-progress', { autoClose: false });
  try {
    const done = await work(`runs/${run.id}/${what}`, body, message => {
      if (message) {
        Notification.update({ id: notice, message, type: 'in-progress' });
      }
    });
    Notification.update({ id: notice, message: done.message, type: 'success', autoClose: 5000 });
  } catch (error) {
    Notification.update({ id: notice, message: inWords(error), type: 'error', autoClose: false });
  }
}

export default plugin;
