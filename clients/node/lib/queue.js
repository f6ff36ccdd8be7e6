// A queue, for programs that add jobs, look at them and change them.

import { hostname } from 'node:os';

import { Backoff, DEFAULT_URL } from './connection.js';
import { anotherLeads, asDelaydError, passes } from './errors.js';
import { encoded, json, metaOf, name } from './job.js';
import { addCommand, checked, ofGroup, scheduleCommand, scheduleNames } from './options.js';
import { Links, Partitions } from './partitions.js';
import { milliseconds, now, when } from './time.js';

const CONNECT_FOR_MS = 5_000;
const BACKOFF_LIMIT_MS = 1_000;
const REPEATS_MAX = 3;
const PIPELINE_MAX = 1_000;
const DEFAULTS = { connection: DEFAULT_URL, defaultJobOptions: {}, codec: json };

export class Queue {
  #options;
  #links;

  /** @param {string} name @param {any} [options] options, or the connection alone */
  constructor(name, options = {}) {
    this.name = name;
    const isConnection = typeof options === 'string' || options instanceof URL || Array.isArray(options) || typeof options?.duplicate === 'function';
    this.#options = checked('Queue', isConnection ? { connection: options } : options, DEFAULTS);
    this.#links = new Links(new Partitions(this.#options.connection), `queue:${hostname()}:${process.pid}`, () => {}, BACKOFF_LIMIT_MS);
  }

  /** Adds a job. Answers its id, or null if it is there already and `nx` was given. @param {any} body @param {any} [options] @param {any[]} more */
  async add(body, options, ...more) {
    if (more.length > 0) throw new TypeError('add: give a body and options; jobs have no names');
    const started = now();
    const o = { ...this.#options.defaultJobOptions, ...options };
    const id = o.id ?? o.jobId;
    const command = this.#adding(body, o);
    // With an id a second ADD does nothing if the first one arrived.
    const again = id === undefined || o.replace || o.latest ? undefined : () => this.#adding(body, { ...o, nx: true, delay: remaining(o.delay, started) });
    const reply = await this.#call(command, again);
    return reply === null ? (o.nx ? null : String(id)) : String(reply);
  }

  /**
   * Adds jobs in pipelines, or in one transaction.
   * @param {any[]} jobs each with a `body` beside its options @param {{ atomic?: boolean }} [how]
   * @returns {Promise<(string | null)[]>} as add() answers
   */
  async addBulk(jobs, how = {}) {
    const { atomic } = checked('addBulk', how, { atomic: false });
    const commands = jobs.map(({ body, ...options }) => this.#adding(body, { ...this.#options.defaultJobOptions, ...options }));
    let replies = [];
    for (let at = 0; at < commands.length; at += atomic ? commands.length : PIPELINE_MAX) {
      const sent = atomic ? [['MULTI'], ...commands, ['EXEC']] : commands.slice(at, at + PIPELINE_MAX);
      replies.push(...(await this.#pipeline(sent, atomic)));
    }
    const refused = replies.filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
    if (atomic && refused.length > 0) throw refused[0];
    if (atomic) replies = (replies.at(-1)?.value ?? []).map((value) => (value instanceof Error ? { reason: asDelaydError(value) } : { value }));
    const errors = replies.filter(({ reason }) => reason).map(({ reason }) => reason);
    if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of ${jobs.length} jobs were not added: ${errors[0].message}`);
    return replies.map(({ value }) => (value === null ? null : String(value)));
  }

  /** Removes a job that no worker has. Answers the state that it was in: 'leased' is left alone without `force`. @param {string} id @param {any} [options] */
  cancel(id, options = {}) {
    const { force } = checked('cancel', options, { force: false });
    return this.call('DELAY.CANCEL', this.name, id, ...(force ? ['FORCE'] : []));
  }

  /** Moves a delayed or ready job. False if there is none. @param {string} id @param {number | string | Date} to @param {any} [options] */
  async reschedule(id, to, options = {}) {
    const { gt, lt } = checked('reschedule', options, { gt: false, lt: false });
    const only = [...(gt ? ['GT'] : []), ...(lt ? ['LT'] : [])];
    return (await this.call('DELAY.RESCHEDULE', this.name, id, when(to, 'reschedule'), ...only)) === 1;
  }

  /** What is known of a job; null if there is none. @param {string} id */
  async get(id) {
    const job = asObject(await this.#call(['DELAY.GET', this.name, id]));
    if (!job) return null;
    let { body } = job;
    try {
      body = this.#options.codec.decode(body);
    } catch {
      // Shown as it is.
    }
    return { ...texts(job), body, ...(job.group && { group: name(job.group) }), ...(job.meta && { meta: metaOf(job.meta) }),
      ...(job.errors && { errors: job.errors.map((/** @type {any} */ error) => texts(asObject(error))) }) };
  }

  /** The counts, totals and lateness of the queue, or the counts of a group; null if nothing is known of it. @param {any} [options] */
  async stats(options = {}) {
    const o = checked('stats', options, { group: undefined });
    return texts(asObject(await this.#call(['DELAY.STATS', this.name, ...ofGroup(o)])));
  }

  /** Removes the jobs in these states, of a group if the last is `{ group }`; in all but leased if none is named. Answers how many. @param {any[]} states */
  purge(...states) {
    const o = checked('purge', typeof states.at(-1) === 'object' ? states.pop() : {}, { group: undefined });
    return this.call('DELAY.PURGE', this.name, ...states.map((state) => state.toUpperCase()), ...ofGroup(o));
  }

  /** Tries dead jobs again. Answers how many. @param {any} [options] */
  redrive(options = {}) {
    const o = checked('redrive', options, { count: undefined, ids: undefined, in: undefined, keepAttempts: false, group: undefined });
    const words = [o.count === undefined ? [] : ['COUNT', o.count], o.ids ? ['IDS', o.ids.length, ...o.ids] : []];
    words.push(o.in === undefined ? [] : ['IN', when(o.in, 'redrive in')], o.keepAttempts ? ['KEEP-ATTEMPTS'] : []);
    return this.call('DELAY.REDRIVE', this.name, ...words.flat(), ...ofGroup(o));
  }

  /** Hands out no jobs (`taking`, the default) or takes none (`adding`), until resume() or for a time. @param {any} [options] */
  async pause(options = {}) {
    const o = checked('pause', options, { taking: !options.adding, adding: false, for: undefined });
    const what = o.taking && o.adding ? 'ALL' : o.adding ? 'IN' : 'OUT';
    await this.call('DELAY.PAUSE', this.name, what, ...(o.for === undefined ? [] : ['FOR', `${milliseconds(o.for, 'pause for')}ms`]));
  }

  async resume() {
    await this.call('DELAY.RESUME', this.name);
  }

  /** Sets a schedule: a job `every` so often, or at the times of a `cron` pattern. @param {string} name @param {any} options */
  async schedule(name, options) {
    const [result, next] = await this.#call(scheduleCommand(this.name, name, options, this.#options.codec));
    return { result: String(result), next: next === null ? null : new Date(next) };
  }

  /** Whether there was one. @param {string} name */
  async unschedule(name) {
    return (await this.call('DELAY.SCHEDULE', 'DEL', this.name, name)) === 1;
  }

  /** The names of its schedules. */
  schedules() {
    return scheduleNames((command) => this.#call(command), this.name);
  }

  /** Any command of the server. Bytes in its reply are read as UTF-8. @param {string} command @param {any[]} args @returns {Promise<any>} */
  async call(command, ...args) {
    return texts(await this.#call([command, ...args.map((arg) => (arg instanceof Uint8Array ? Buffer.from(arg) : String(arg)))]));
  }

  async close() {
    this.#links.close();
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  /** @param {any} body @param {any} options */
  #adding(body, options) {
    return addCommand(this.name, encoded(this.#options.codec, body), options);
  }

  /** What a server refused that does not lead is sent again, of a transaction all. @param {any[][]} commands @param {boolean} atomic */
  async #pipeline(commands, atomic) {
    const [deadline, backoff, link] = [now() + CONNECT_FOR_MS, new Backoff(BACKOFF_LIMIT_MS), this.#links.of(this.name)];
    /** @type {any[]} */
    const replies = [];
    let left = [...commands.keys()];
    for (;;) {
      const connection = await link.get(deadline);
      const settled = await Promise.allSettled(left.map((at) => connection.call(commands[at])));
      left.forEach((at, number) => (replies[at] = settled[number]));
      left = left.filter((at) => replies[at].reason && anotherLeads(replies[at].reason));
      if (left.length === 0 || now() >= deadline) return replies;
      if (atomic) left = [...commands.keys()];
      await backoff.wait(link.signal);
    }
  }

  /** Waits for a connection, and for a server that cannot do it yet. What was cut off is sent again only if `again` says how. @param {any[]} command @param {() => any[]} [again] */
  async #call(command, again) {
    const deadline = now() + CONNECT_FOR_MS;
    const backoff = new Backoff(BACKOFF_LIMIT_MS);
    let link = this.#links.of(queueOf(command) ?? this.name);
    for (let repeats = 0; ; ) {
      const connection = await link.get(deadline);
      try {
        return await connection.call(command);
      } catch (/** @type {any} */ error) {
        const wasCut = error.code === 'CONNECTION';
        if (wasCut ? !again || repeats++ >= REPEATS_MAX : !passes(error) || now() >= deadline) throw error;
        const before = link;
        if (error.slot !== undefined) link = this.#links.at(error.slot);
        if (wasCut && again) command = again();
        else if (link === before) await backoff.wait(link.signal);
      }
    }
  }
}

/** Where commands name their queue; of others the server says where they belong. @param {any[]} command */
function queueOf([name, ...rest]) {
  if (!/^DELAY\./i.test(name)) return undefined;
  return /^DELAY\.(SCHEDULE|CONFIG)$/i.test(name) ? rest[1] : rest[0];
}

/** A delay that began earlier. @param {any} delay @param {number} started */
function remaining(delay = 0, started) {
  const text = when(delay, 'delay');
  return /^\d+ms$/.test(text) ? Math.max(0, milliseconds(text, 'delay') - (now() - started)) : text;
}

/** A map as RESP2 shows it, with names as in JavaScript. @param {any[] | null} reply */
function asObject(reply) {
  if (reply === null) return null;
  /** @type {Record<string, any>} */
  const object = {};
  for (let at = 0; at < reply.length; at += 2) object[camel(String(reply[at]))] = reply[at + 1];
  return object;
}

const camel = (/** @type {string} */ name) => name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());

/** Bytes as texts. @param {any} value @returns {any} */
function texts(value) {
  if (Buffer.isBuffer(value)) return value.toString();
  if (Array.isArray(value)) return value.map(texts);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, texts(inner)]));
}
