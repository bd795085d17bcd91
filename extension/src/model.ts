/** The one list of runs that every part of the extension looks at. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Token } from '@lumino/coreutils';

import { Runs } from './runs';

export type IRuns = Runs;

export const IRuns = new Token<IRuns>('theseus-jupyter:IRuns', 'The runs of the registry.');

const plugin: JupyterFrontEndPlugin<IRuns> = {
  id: 'theseus-jupyter:model',
  description: 'The runs of the registry, kept up to date while somebody looks.',
  autoStart: true,
  provides: IRuns,
  activate: () => new Runs()
};

export default plugin;
