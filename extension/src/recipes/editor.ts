/** A recipe that is open as text offers to be edited as a form, and to be sent. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import { ToolbarButton } from '@jupyterlab/ui-components';
import { DisposableDelegate } from '@lumino/disposable';

import { icon } from '../icon';
import { isRecipe, isYaml, recipe } from './names';

const EDITOR = 'Editor'; // the name under which JupyterLab opens a file as text

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'theseus-jupyter:recipe-editor',
  description: 'Buttons over a recipe that is open as text.',
  autoStart: true,
  activate: ({ commands, docRegistry }: JupyterFrontEnd): void => {
    docRegistry.addWidgetExtension(EDITOR, {
      createNew: (widget: IDocumentWidget, context: DocumentRegistry.Context) => {
        const made = [
          { label: 'Edit as form', command: recipe.form },
          { label: 'Submit…', command: recipe.submit }
        ].map(({ label, command }) => {
          const open = async (): Promise<void> => {
            if (await isSaved(context)) {
              await commands.execute(command, { path: context.path });
            }
          };
          return new ToolbarButton({ label, icon, onClick: () => void open() });
        });
        made.forEach((button, at) => widget.toolbar.insertItem(at, `theseus-recipe-${at}`, button));
        const look = (): void => {
          const wanted = isYaml(context.path) && isRecipe(context.model.toString());
          made.forEach(button => button.setHidden(!wanted));
        };
        look();
        void context.ready.then(look);
        context.model.contentChanged.connect(look);
        context.pathChanged.connect(look);
        return new DisposableDelegate(() => {
          context.model.contentChanged.disconnect(look);
          context.pathChanged.disconnect(look);
          made.forEach(button => button.dispose());
        });
      }
    });
  }
};

/** Whether the file is as it is on the screen; what was typed is saved when the user says so. */
async function isSaved(context: DocumentRegistry.Context): Promise<boolean> {
  if (!context.model.dirty) {
    return true;
  }
  const asked = await showDialog({
    title: `Save ${PathExt.basename(context.path)} first?`,
    body: 'It has changes that are not in the file.',
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Save' })]
  });
  if (asked.button.accept) {
    await context.save();
  }
  return asked.button.accept && !context.model.dirty;
}

export default plugin;
