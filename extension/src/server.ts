/** How the Jupyter server is asked: requests, long work, and streams of events. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { Events } from './events';
import { text } from './words';

/** What is wrong, and what to do about it, in words for the user. */
export class ServerError extends Error {
  constructor(
    message: string,
    readonly todo: string,
    readonly status: number
  ) {
    super(message);
  }

  /** The server does not know our addresses: its part of Theseus is not installed or switched off. */
  get missing(): boolean {
    return this.status === 404 && this.todo === MISSING;
  }
}

const MISSING = 'pip install theseus-jupyter';

/** A value that is sent or received as JSON. */
type Body = Record<string, unknown>;

/**
 * Ask for something below `theseus/api/`.
 *
 * Throws a `ServerError` when the server says no, or says nothing.
 */
export async function ask<T>(path: string, body?: Body): Promise<T> {
  const answer = await fetched(path, body ? { method: 'POST', body: JSON.stringify(body) } : {});
  try {
    return (await answer.json()) as T;
  } catch {
    throw new ServerError('the server has answered something that is not JSON', '', answer.status);
  }
}

interface ITask {
  done: boolean;
  message: string;
  error: string | null;
  result: { path?: string; run?: string };
}

const LOOK = 400; // milliseconds between two looks at work that goes on

/** Let the server do something that takes its time; `told` hears how it goes. */
export async function work(
  path: string,
  body: Body,
  told: (message: string) => void = () => undefined
): Promise<ITask> {
  const { task } = await ask<{ task: string }>(path, body);
  for (;;) {
    const now = await ask<ITask>(`tasks/${task}`);
    if (now.error !== null) {
      throw new ServerError(now.error, '', 200);
    }
    if (now.done) {
      return now;
    }
    told(now.message);
    await pause(LOOK);
  }
}

/** Follow a stream of events until it ends or `signal` says so. */
export async function follow(
  path: string,
  heard: (event: string, data: unknown) => void,
  signal: AbortSignal
): Promise<void> {
  const answer = await fetched(path, { signal, cache: 'no-store' });
  const reader = answer.body?.getReader();
  if (!reader) {
    throw new ServerError('the server has sent no stream', '', answer.status);
  }
  const events = new Events(heard);
  const letters = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      events.take(letters.decode(value, { stream: true }));
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** Wait. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** What a fault says to the user. */
export function inWords(error: unknown): string {
  if (error instanceof ServerError) {
    return error.todo ? `${error.message}\n${error.todo}` : error.message;
  }
  return String(error);
}

async function fetched(path: string, init: RequestInit): Promise<Response> {
  const settings = ServerConnection.makeSettings();
  const url = URLExt.join(settings.baseUrl, 'theseus', 'api', path);
  let answer: Response;
  try {
    answer = await ServerConnection.makeRequest(url, init, settings);
  } catch (error) {
    if (init.signal?.aborted) {
      throw error;
    }
    throw new ServerError('the Jupyter server does not answer', 'Is it still running?', 0);
  }
  if (answer.ok) {
    return answer;
  }
  const said = await answer
    .json()
    .then((body: Body) => body)
    .catch((): Body => ({}));
  if (answer.status === 404 && !('what_to_do' in said)) {
    throw new ServerError(
      'The server part of Theseus is not here: install it where JupyterLab runs, then start it anew.',
      MISSING,
      404
    );
  }
  const message = text(said.message) || `the server has answered ${answer.status}`;
  throw new ServerError(message, text(said.what_to_do), answer.status);
}
