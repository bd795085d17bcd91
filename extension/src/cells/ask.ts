/** What the Jupyter server says about a cell. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

export interface IItem {
  text: string;
  kind: string;
  type: string;
  default: string | null;
  help: string;
}

export interface ICompletions {
  from: number;
  to: number;
  items: IItem[];
}

export interface IMistake {
  from: number;
  to: number;
  message: string;
  fix: { text: string; from: number; to: number } | null;
}

export interface IExplained {
  from: number;
  to: number;
  key: string;
  type: string;
  default: string | null;
  help: string;
  owner: string;
}

/** Return what can stand at a place; null where the server does not say. */
export function complete(cell: string, offset: number): Promise<ICompletions | null> {
  return ask('complete', { cell, offset });
}

/** Return the mistakes of a cell; null where the server does not say. */
export async function check(cell: string): Promise<IMistake[] | null> {
  return (await ask<{ mistakes: IMistake[] }>('check', { cell }))?.mistakes ?? null;
}

/** Return what is known of the word at a place, if anything is. */
export function hover(cell: string, offset: number): Promise<IExplained | null> {
  return ask('hover', { cell, offset });
}

async function ask<T>(what: string, body: object): Promise<T | null> {
  const settings = ServerConnection.makeSettings();
  const url = URLExt.join(settings.baseUrl, 'theseus', 'api', 'cells', what);
  try {
    const sent = { method: 'POST', body: JSON.stringify(body) };
    const answer = await ServerConnection.makeRequest(url, sent, settings);
    return answer.ok ? ((await answer.json()) as T) : null;
  } catch (error) {
    if (error instanceof ServerConnection.NetworkError || error instanceof SyntaxError) {
      return null; // no server, or one that knows nothing of us: a cell is then as any other
    }
    throw error;
  }
}
