// Reads a JSON list of jobs, {chunks, bounds}, from stdin; writes what a terminal shows for each.
import { readFileSync } from "node:fs";

const { Terminal } = await import(process.argv[2]);
const jobs = JSON.parse(readFileSync(0, "utf8"));
const shown = jobs.map(({ chunks, bounds }) => {
  const terminal = new Terminal(bounds ?? {});
  for (const chunk of chunks) terminal.feed(chunk);
  const spans = [];
  for (let at = terminal.first; at < terminal.end; at++) spans.push(terminal.spans(at));
  return { lines: terminal.lines(), first: terminal.first, spans, stored: terminal.stored };
});
process.stdout.write(JSON.stringify(shown));
