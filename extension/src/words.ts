/** Values and times as texts. */

/** Return a value that is a text, and nothing in place of any other. */
export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** `8 s`, `2 min 10 s`, `3 h 5 min`, `4 d 2 h`. */
export function span(seconds: number): string {
  const whole = Math.max(Math.floor(seconds), 0);
  if (whole < 60) {
    return `${whole} s`;
  }
  if (whole < 3600) {
    return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  }
  if (whole < 86400) {
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  }
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** When that is: `14:20`, and with the day when it is another. */
export function clock(seconds: number, now = new Date()): string {
  const then = new Date(1000 * seconds);
  const time = `${two(then.getHours())}:${two(then.getMinutes())}`;
  if (then.toDateString() === now.toDateString()) {
    return time;
  }
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${time}`;
}

function two(number: number): string {
  return String(number).padStart(2, '0');
}
