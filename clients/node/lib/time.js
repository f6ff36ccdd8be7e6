// Durations and instants, as delayd writes them.

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const DURATION = /^(?:\d+|(?:\d+(?:ms|[smhdw]))+)$/;
const INSTANT = /^(?:@\d+|\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))$/i;

/** Monotonic, in ms: the wall clock may be set. */
export const now = () => performance.now();

/**
 * A duration in milliseconds: a number of them, or a text such as `500ms`, `30s`, `1h30m`.
 * @param {unknown} value
 * @param {string} name what it is, for the error
 */
export function milliseconds(value, name) {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return Math.ceil(value);
  if (typeof value === 'string' && DURATION.test(value)) {
    if (/^\d+$/.test(value)) return Number(value);
    return [...value.matchAll(/(\d+)(ms|[smhdw])/g)].reduce((sum, [, count, unit]) => sum + Number(count) * UNIT_MS[unit], 0);
  }
  throw new TypeError(`${name}: ${shown(value)} is not a duration; give milliseconds, or a text such as '500ms', '30s' or '1h30m'`);
}

/**
 * A time for the server: a duration from now, a Date, or a text with an instant and its zone.
 * @param {unknown} value
 * @param {string} name
 */
export function when(value, name) {
  if (value instanceof Date && Number.isFinite(value.getTime())) return `@${value.getTime()}`;
  if (typeof value === 'string' && INSTANT.test(value)) return value;
  if (typeof value === 'string' && !DURATION.test(value)) {
    throw new TypeError(`${name}: ${shown(value)} is no duration such as '30m' and no instant with a zone such as '2030-01-31T08:00:00Z'`);
  }
  return `${milliseconds(value, name)}ms`;
}

/** @param {unknown} value */
export const shown = (value) => (typeof value === 'string' ? `'${value}'` : String(value));
