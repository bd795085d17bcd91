/** `text/event-stream`, read as it arrives (https://html.spec.whatwg.org/multipage/server-sent-events.html). */

/** Cuts a stream into its events, however it is cut into pieces itself. */
export class Events {
  constructor(private readonly heard: (event: string, data: unknown) => void) {}

  /** Take in a piece. */
  take(text: string): void {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    for (const line of lines) {
      this.line(line.endsWith('\r') ? line.slice(0, -1) : line);
    }
  }

  private line(line: string): void {
    if (line === '') {
      if (this.data.length) {
        this.heard(this.name || 'message', JSON.parse(this.data.join('\n')));
      }
      this.name = '';
      this.data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') {
      this.name = value;
    } else if (field === 'data') {
      this.data.push(value);
    }
  }

  private rest = '';
  private name = '';
  private data: string[] = [];
}
