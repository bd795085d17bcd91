/** Which runs a list shows, and under which heads. */

import type { IRun } from '../runs';

export interface IProject {
  /** The project, and the group where it is not the default one. */
  head: string;
  runs: IRun[];
}

/** Return the runs in which every word occurs, by project; the project of the newest run comes first. */
export function projects(runs: IRun[], words: string, state: string): IProject[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Map<string, IRun[]>();
  for (const run of runs) {
    const text = [run.name, run.id, run.project, run.group, run.host, run.state].join(' ').toLowerCase();
    if (!wanted.every(word => text.includes(word)) || !inState(run, state)) {
      continue;
    }
    const head = run.group === 'default' ? run.project : `${run.project} / ${run.group}`;
    const there = found.get(head);
    if (there) {
      there.push(run);
    } else {
      found.set(head, [run]);
    }
  }
  return [...found].map(([head, runs]) => ({ head, runs }));
}

function inState(run: IRun, state: string): boolean {
  if (state === 'active') {
    return !run.ended;
  }
  return state === 'any' || run.state === state;
}
