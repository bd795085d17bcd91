/** Puts the panel into the side bar, and takes it away when the settings say so. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { icon } from '../icon';
import { IRuns } from '../model';
import { Panel } from './panel';

const ID = 'theseus-jupyter:panel';
const RANK = 350; // below the running terminals and kernels, above the table of contents

export const names = { runs: 'theseus:show-runs', hosts: 'theseus:show-hosts' };

interface ISettings {
  showPanel: boolean;
  side: 'left' | 'right';
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'The panel of runs and hosts in the side bar.',
  autoStart: true,
  requires: [IRuns],
  optional: [ISettingRegistry, ILayoutRestorer],
  activate: async (
    app: JupyterFrontEnd,
    runs: IRuns,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null
  ): Promise<void> => {
    const { commands, shell } = app;
    let panel: Panel | null = null;
    let side = '';

    const place = (wanted: ISettings): void => {
      if (!wanted.showPanel) {
        panel?.dispose();
        panel = null;
        side = '';
        return;
      }
      if (!panel || panel.isDisposed) {
        panel = new Panel(runs, commands);
        panel.title.icon = icon;
        restorer?.add(panel, panel.id);
      }
      if (side !== wanted.side) {
        side = wanted.side;
        shell.add(panel, side, { rank: RANK });
      }
    };

    const show = (): Panel | null => {
      if (!panel) {
        place({ showPanel: true, side: 'left' }); // asked for by name, whatever the settings say
      }
      if (panel) {
        shell.activateById(panel.id);
      }
      return panel;
    };
    commands.addCommand(names.runs, { label: 'Show runs', execute: () => void show() });
    commands.addCommand(names.hosts, {
      label: 'Show hosts',
      execute: () => void show()?.hosts.element.scrollIntoView()
    });

    const fallback: ISettings = { showPanel: true, side: 'left' };
    try {
      const settings = await registry?.load(ID);
      const read = (): void => place((settings?.composite as unknown as ISettings) ?? fallback);
      settings?.changed.connect(read);
      read();
    } catch {
      place(fallback); // without its settings the panel is still of use
    }
  }
};

export default plugin;
