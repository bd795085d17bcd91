/** The runs of the registry as the server tells of them, kept up to date while somebody looks. */

import { Signal } from '@lumino/signaling';

import { ask, follow, pause, ServerError } from './server';

/** A run in a list; see docs/reference/server.md. */
export interface IRun {
  id: string;
  name: string;
  project: string;
  group: string;
  host: string;
  state: string;
  shape: string;
  headline: string;
  reason: string | null;
  submitted: number;
  ended: boolean;
  elapsed: number | null;
  position: string;
  remaining: string;
  fraction: number | null;
  can: string[];
  spark: (number | null)[];
  last_line: string;
  path: string | null;
  connection: string;
}

interface IAnswer {
  mark: string;
  whole: boolean;
  runs: IRun[];
  gone: string[];
}

const AGAIN = [500, 1000, 2000, 5000, 10000]; // milliseconds until the server is asked once more

/** All runs. Asks nothing until it is watched. */
export class Runs {
  readonly changed = new Signal<this, void>(this);

  /** What is wrong with the connection; null when all is well. */
  trouble: ServerError | null = null;

  /** Whether the server has answered yet. */
  known = false;

  /** Newest first. */
  get list(): IRun[] {
    return [...this.byId.values()].sort((a, b) => b.submitted - a.submitted || (a.id < b.id ? -1 : 1));
  }

  get(id: string): IRun | undefined {
    return this.byId.get(id);
  }

  /** When what is known was true, in milliseconds: `elapsed` goes on from there. */
  at = Date.now();

  /** Keep the list up to date until `stop`. */
  watch(): void {
    if (!this.stopping) {
      this.stopping = new AbortController();
      void this.keep(this.stopping.signal);
    }
  }

  /** Ask no more; what is known stays. */
  stop(): void {
    this.stopping?.abort();
    this.stopping = null;
  }

  /** Have the old ones in the list as well, or not. */
  set everything(on: boolean) {
    if (on !== this.all) {
      this.all = on;
      this.mark = '';
      if (this.stopping) {
        void this.read().catch(() => undefined);
      }
    }
  }

  private async keep(signal: AbortSignal): Promise<void> {
    let failed = 0;
    while (!signal.aborted) {
      try {
        // The first event comes at once: what changed while nobody looked is read then.
        await follow(
          'events',
          event => {
            failed = 0;
            if (event === 'runs') {
              void this.read().catch(error => this.fail(error));
            }
          },
          signal
        );
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        this.fail(error);
      }
      await pause(AGAIN[Math.min(failed++, AGAIN.length - 1)] ?? 0, signal);
    }
  }

  private async read(): Promise<void> {
    const options = new URLSearchParams();
    if (this.mark) {
      options.set('since', this.mark);
    }
    if (this.all) {
      options.set('all', '1');
    }
    const answer = await ask<IAnswer>(`runs?${options}`);
    if (answer.whole) {
      this.byId.clear();
    }
    for (const id of answer.gone) {
      this.byId.delete(id);
    }
    for (const run of answer.runs) {
      this.byId.set(run.id, run);
    }
    this.mark = answer.mark;
    this.at = Date.now();
    this.known = true;
    this.trouble = null;
    this.changed.emit();
  }

  private fail(error: unknown): void {
    this.trouble =
      error instanceof ServerError ? error : new ServerError(String(error), '', 0);
    this.changed.emit();
  }

  private readonly byId = new Map<string, IRun>();
  private stopping: AbortController | null = null;
  private mark = '';
  private all = false;
}
