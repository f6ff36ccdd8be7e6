// Options of calls, and the words of commands that they become.

import { encoded } from './job.js';
import { milliseconds, shown, when } from './time.js';

/** Where BullMQ's users find what they look for. */
const ELSEWHERE = {
  data: "the body is add()'s first argument, or `body` in addBulk()",
  opts: 'options go next to `body` in addBulk()',
  deduplication: 'give an `id`, and `unique` for how long it stays taken afterwards',
  repeat: "use schedule(), or a worker's every() and cron()",
  removeOnComplete: 'acknowledged jobs are gone',
  removeOnFail: 'set dead-retention and dead-max of the queue by DELAY.CONFIG SET',
  limiter: 'set rate of the queue by DELAY.CONFIG SET',
  lockDuration: 'use lease',
  maxStalledCount: 'deliveries whose lease ends count as attempts',
  stalledInterval: 'the server ends leases to the millisecond',
};

/**
 * The options with their defaults. One that is unknown is a mistake.
 * @param {string} what whose options these are @param {any} options @param {any} defaults
 */
export function checked(what, options, defaults) {
  if (options === null || typeof options !== 'object') throw new TypeError(`${what}: options are an object, not ${shown(options)}`);
  for (const name of Object.keys(options)) {
    if (name in defaults) continue;
    const hint = ELSEWHERE[name] ?? `it has ${Object.keys(defaults).join(', ')}`;
    throw new TypeError(`${what}: unknown option '${name}'; ${hint}`);
  }
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== null));
  return { ...defaults, ...given };
}

const text = (/** @type {any} */ value) => (value instanceof Uint8Array ? Buffer.from(value) : String(value));
const duration = (/** @type {any} */ value, /** @type {string} */ name) => `${milliseconds(value, name)}ms`;
const upper = (/** @type {any} */ value) => String(value).toUpperCase();

/** A ladder `1s,5s,1m`, an array of durations, one duration, `exp:1s:1h~`, or BullMQ's `{ type, delay, jitter }`. @param {any} value */
function backoff(value) {
  if (Array.isArray(value)) return value.map((step) => duration(step, 'backoff')).join();
  if (typeof value !== 'object') return typeof value === 'number' ? duration(value, 'backoff') : String(value);
  const { type, delay, max = '1h', jitter } = value;
  if (type !== 'fixed' && type !== 'exponential') throw new TypeError(`backoff: type ${shown(type)} is neither 'fixed' nor 'exponential'`);
  const first = duration(delay, 'backoff delay');
  return (type === 'fixed' ? first : `exp:${first}:${duration(max, 'backoff max')}`) + (jitter ? '~' : '');
}

/** @param {any} value */
function meta(value = {}) {
  const isText = (/** @type {any} */ each) => typeof each === 'string' || each instanceof Uint8Array;
  const isPlain = typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value));
  if (!isPlain || !Object.values(value).every(isText)) throw new TypeError(`meta: ${shown(value)} is not a plain object of texts and bytes`);
  const pairs = Object.entries(value);
  return pairs.length === 0 ? [] : ['META', String(pairs.length), ...pairs.flatMap(([name, each]) => [name, text(each)])];
}

const JOB = {
  priority: ['PRIORITY', text], attempts: ['ATTEMPTS', text], backoff: ['BACKOFF', backoff], lease: ['LEASE', duration], ttl: ['TTL', duration],
  group: ['GROUP', text], meta: [],
};
const ADD = { delay: [], id: ['ID', text], jobId: ['ID', text], nx: ['NX'], replace: ['REPLACE'], latest: ['LATEST'], maxDelay: ['MAXDELAY', duration], unique: ['UNIQUE', duration], ...JOB };
const SCHEDULE = {
  body: [], every: ['EVERY', duration], cron: ['CRON', text], tz: ['TZ', text], from: ['FROM', when], until: ['UNTIL', when], runs: ['RUNS', text],
  spread: ['SPREAD', duration], overlap: ['OVERLAP', upper], catchup: ['CATCHUP', text], grace: ['GRACE', duration], ...JOB,
};

/** @param {any} options @param {Record<string, any[]>} table */
function words(options, table) {
  return Object.entries(table).flatMap(([name, [word, as]]) => {
    const value = options[name];
    if (!word || value === undefined || (!as && !value)) return [];
    return as ? [word, as(value, name)] : [word];
  });
}

const names = (/** @type {object} */ table) => Object.fromEntries(Object.keys(table).map((name) => [name, undefined]));
const [ADD_NAMES, SCHEDULE_NAMES] = [names(ADD), names(SCHEDULE)];

/** @param {any} options */
export const ofGroup = (options) => words(options, { group: JOB.group });

/** @param {any} queue @param {any} body encoded @param {any} options */
export function addCommand(queue, body, options) {
  const o = checked('add', options, ADD_NAMES);
  return ['DELAY.ADD', queue, when(o.delay ?? 0, 'delay'), body, ...words(o, ADD), ...meta(o.meta)];
}

/** @param {any} queue @param {string} name @param {any} options @param {any} codec */
export function scheduleCommand(queue, name, options, codec) {
  const o = checked('schedule', options, SCHEDULE_NAMES);
  return ['DELAY.SCHEDULE', 'SET', queue, name, encoded(codec, o.body), ...words(o, SCHEDULE), ...meta(o.meta)];
}

const PAGE = 1_000;
/** The names of a queue's schedules. @param {(command: any[]) => Promise<any[]>} call @param {any} queue @returns {Promise<string[]>} */
export async function scheduleNames(call, queue) {
  const found = [];
  for (;;) {
    const page = await call(['DELAY.SCHEDULE', 'LIST', queue, 'AFTER', found.at(-1) ?? '', 'COUNT', String(PAGE)]);
    found.push(...page.map(([name]) => String(name)));
    if (page.length < PAGE) return found;
  }
}
