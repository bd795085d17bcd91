/** The names of what can be done with a run; each takes `{id}`. */

export const run = {
  log: 'theseus:open-log',
  card: 'theseus:watch-card',
  cancel: 'theseus:cancel-run',
  fetch: 'theseus:fetch-run',
  resubmit: 'theseus:resubmit-run',
  copy: 'theseus:copy-run-id',
  cell: 'theseus:insert-watch-cell',
  reveal: 'theseus:reveal-run-folder'
} as const;

/** As they stand in a menu. */
export const RUN_COMMANDS: string[] = Object.values(run);
