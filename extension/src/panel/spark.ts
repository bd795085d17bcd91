/** The loss of a run as a line of the height of a letter. */

const WIDTH = 56;
const HEIGHT = 18;
const SVG = 'http://www.w3.org/2000/svg';

/** Return the points of each unbroken piece of the line; the first value stands at the left. */
export function pieces(values: (number | null)[]): string[] {
  const finite = values.filter((value): value is number => value !== null);
  const low = Math.min(...finite);
  const range = Math.max(...finite) - low || 1;
  const step = WIDTH / Math.max(values.length - 1, 1);
  const found: string[][] = [[]];
  values.forEach((value, at) => {
    if (value === null) {
      found.push([]);
    } else {
      const y = HEIGHT - 1 - ((value - low) / range) * (HEIGHT - 2);
      found[found.length - 1]?.push(`${(at * step).toFixed(1)},${y.toFixed(1)}`);
    }
  });
  return found.filter(piece => piece.length > 1).map(piece => piece.join(' '));
}

/** Return the picture; null while there are fewer than two values. */
export function spark(values: (number | null)[]): SVGElement | null {
  const lines = pieces(values);
  if (!lines.length) {
    return null;
  }
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute('width', String(WIDTH));
  svg.setAttribute('height', String(HEIGHT));
  svg.setAttribute('class', 'jp-theseus-spark');
  svg.setAttribute('role', 'img');
  const finite = values.filter((value): value is number => value !== null);
  const [first, last] = [finite[0] ?? 0, finite[finite.length - 1] ?? 0];
  svg.setAttribute('aria-label', `loss from ${first.toPrecision(3)} to ${last.toPrecision(3)}`);
  for (const points of lines) {
    const line = document.createElementNS(SVG, 'polyline');
    line.setAttribute('points', points);
    svg.append(line);
  }
  return svg;
}
