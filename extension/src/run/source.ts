/** A run that a card shows with no kernel: the server's stream of it goes into the card's own store. */

import { CardStore } from 'theseus-static/card.js';

import { ask, follow, inWords, pause, ServerError, work } from '../server';
import { text } from '../words';

interface ILog {
  rank: number | string;
  from: number;
  to: number;
  text: string;
}

interface IEnd {
  again: boolean;
  error?: string;
}

const AGAIN = [500, 1000, 2000, 5000, 10000]; // milliseconds until the server is asked once more

/** Feeds a card with one run of the registry, while somebody looks at it. */
export class RunSource {
  readonly store: CardStore;

  constructor(readonly id: string) {
    this.store = new CardStore(message => void this.told(message));
    this.store.silent = true; // a server that does not answer is told of below
  }

  /** Begin, or go on, to follow the run. */
  watch(): void {
    if (!this.stopping) {
      this.stopping = new AbortController();
      void this.keep(this.stopping.signal);
    }
  }

  /** Ask no more; what is shown stays. */
  rest(): void {
    this.stopping?.abort();
    this.stopping = null;
  }

  private async keep(signal: AbortSignal): Promise<void> {
    let failed = 0;
    while (!signal.aborted) {
      let again = true;
      try {
        this.fresh = true;
        await follow(
          `runs/${this.id}/stream?rank=all&curves=1`,
          (event, data) => {
            failed = 0;
            if (event === 'end') {
              again = (data as IEnd).again;
            }
            this.heard(event, data);
          },
          signal
        );
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        if (error instanceof ServerError && error.status === 404) {
          this.trouble(inWords(error));
          return;
        }
        this.trouble(inWords(error));
      }
      if (!again) {
        return;
      }
      await pause(AGAIN[Math.min(failed++, AGAIN.length - 1)] ?? 0, signal);
    }
  }

  /** Hand an event of the stream to the store. */
  private heard(event: string, data: unknown): void {
    if (this.fresh && event !== 'end') {
      // Each connection begins anew; what was shown stays until it has something to say.
      this.fresh = false;
      this.reached.clear();
      this.store.message({ type: 'reset' });
    }
    if (event === 'card') {
      this.facts = data as Record<string, unknown>;
      this.update();
    } else if (event === 'log') {
      this.store.message({ type: 'feed', logs: this.parts(data as ILog) });
    } else if (event === 'curves') {
      this.store.message({ type: 'feed', curves: [data] });
    } else if (event === 'end' && (data as IEnd).error) {
      this.trouble(String((data as IEnd).error));
    }
  }

  /** Return a piece of a log for the store, with a note where something before it was left out. */
  private parts({ rank, from, to, text: more }: ILog): Record<string, string>[] {
    const lane = String(rank);
    const before = this.reached.get(lane) ?? 0;
    this.reached.set(lane, to);
    const left = from - before;
    return [...(left > 0 ? [{ lane, note: `… ${left.toLocaleString()} bytes are not shown here; all of it is in the run's log` }] : []), { lane, text: more }];
  }

  /** Say what is wrong with the way to the run. */
  private trouble(told: string): void {
    this.facts = { ...(this.facts ?? blank(this.id)), connection: told };
    this.update();
  }

  /** Do what a button of the card asks for. */
  private async told(message: Record<string, unknown>): Promise<void> {
    const { type, ...more } = message;
    if (type !== 'cancel' && type !== 'fetch' && type !== 'resubmit') {
      return; // signs of life are for a kernel
    }
    const body = type === 'fetch' ? fetchBody(more) : {};
    this.answer(type, true, true, `${type} …`);
    try {
      const done = await work(`runs/${this.id}/${type}`, body, said =>
        this.answer(type, true, true, said || `${type} …`)
      );
      this.answer(type, false, true, done.message);
      this.watch();
    } catch (error) {
      this.answer(type, false, false, inWords(error));
    }
  }

  private answer(action: string, busy: boolean, ok: boolean, told: string): void {
    this.answers = { ...this.answers, [action]: { busy, ok, text: told } };
    this.update();
  }

  private update(): void {
    if (this.facts) {
      this.store.update({ run: this.facts, answers: this.answers, others: [], compared: [] });
    }
  }

  private facts: Record<string, unknown> | null = null;
  private readonly reached = new Map<string, number>();
  private answers: Record<string, { busy: boolean; ok: boolean; text: string }> = {};
  private stopping: AbortController | null = null;
  private fresh = true;
}

/** Return whether the server knows a run. */
export async function isKnown(id: string): Promise<boolean> {
  try {
    await ask(`runs/${id}`);
    return true;
  } catch {
    return false;
  }
}

function fetchBody(more: Record<string, unknown>): Record<string, unknown> {
  const to = text(more.to).trim();
  return { ...(to ? { to } : {}), checkpoints: more.checkpoints === true };
}

/** A run of which nothing is known but its name. */
function blank(id: string): Record<string, unknown> {
  return {
    ...{ id, name: id, project: '', group: '', job: '', host: '', chips: '', state: 'lost', shape: '?' },
    ...{ headline: '', reason: '', starts: '', elapsed: null, progress: null, facts: [], folder: '' },
    ...{ log: '', connection: '', ended: true, can: [], code: '' }
  };
}
