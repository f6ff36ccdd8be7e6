// A worker: reserves jobs, runs handlers and reports outcomes. The rules that it follows are those of clients/RULES.md.

import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';

import { DEFAULT_URL, Link } from './connection.js';
import { Bury, Discard, Retry, Snooze } from './errors.js';
import { json } from './job.js';
import { Leases } from './leases.js';
import { checked, scheduleCommand, scheduleNames } from './options.js';
import { Links, Partitions, slotOf } from './partitions.js';
import { closeAtSignals, forget } from './signals.js';
import { Takers } from './takers.js';
import { Teller } from './teller.js';
import { milliseconds, now } from './time.js';

const LEASE_MS_MIN = 100;
const CONCURRENCY_MAX = 10_000;
const UNTOLD_MAX = 1_000;
const TELL_AFTER_GRACE_MS = 1_000;
const ERROR_BYTES_MAX = 1_024;
const NAME = `worker:${hostname()}:${process.pid}`;
const TIMER_MS_MAX = 2 ** 31 - 1;

const DEFAULTS = {
  connection: DEFAULT_URL, concurrency: 1, lease: '60s', grace: '25s', timeout: undefined, rotate: false, codec: json, app: 'app', sync: false,
  autorun: true, signals: true, logger: console,
};

/** @typedef {import('./job.js').Job} Job */

export class Worker extends EventEmitter {
  counters = { started: 0, done: 0, failed: 0, retried: 0, snoozed: 0, buried: 0, givenBack: 0, lost: 0 };
  #queues;
  #handler;
  #options;
  #lease_ms;
  #timeout_ms;
  /** By name. @type {Map<string, { handler?: Function, queue: string, command: any[] }>} */
  #schedules = new Map();
  #partitions;
  /** To the first queue. @type {Link} */
  #taking;
  #telling;
  #teller;
  #leases;
  /** Once it is known which queues one command may name. @type {Takers | undefined} */
  #takers;
  #isReserving = false;
  #graceEnd = Infinity;
  /** @type {Promise<void> | undefined} */
  #run;
  /** @type {Promise<boolean> | undefined} */
  #closed;
  /** @type {Error | undefined} */
  #failure;
  /** @type {Set<() => void>} */
  #watchers = new Set();

  /** @param {string | string[]} queues @param {(body: any, job: Job) => unknown} handler @param {any} [options] */
  constructor(queues, handler, options = {}) {
    super();
    this.#queues = [queues].flat();
    this.#handler = handler;
    const o = (this.#options = checked('Worker', options, DEFAULTS));
    if (this.#queues.length === 0) throw new TypeError('Worker: name at least one queue');
    if (typeof handler !== 'function') throw new TypeError('Worker: the handler is not a function');
    if (!Number.isInteger(o.concurrency) || o.concurrency < 1 || o.concurrency > CONCURRENCY_MAX) {
      throw new TypeError(`Worker: concurrency is ${o.concurrency}; give a whole number, 1 to ${CONCURRENCY_MAX}`);
    }
    this.#lease_ms = milliseconds(o.lease, 'lease');
    if (this.#lease_ms < LEASE_MS_MIN) throw new TypeError(`Worker: lease is ${o.lease}; the least is ${LEASE_MS_MIN}ms`);
    if (o.timeout !== undefined) this.#timeout_ms = milliseconds(o.timeout, 'timeout');
    milliseconds(o.grace, 'grace');
    this.#partitions = new Partitions(o.connection);
    this.#taking = this.#linkTo(this.#queues[0]);
    this.#telling = new Links(this.#partitions, NAME, (text) => this.#log('warn', `telling: ${text}`));
    const on = {
      told: () => this.#changed(),
      failed: (/** @type {Error} */ error) => this.#fail(error),
      lost: (/** @type {Job} */ job, /** @type {string} */ why) => this.#lose(job, why),
      warn: (/** @type {string} */ text) => this.#log('warn', text),
      /** Outcomes that came too late: which jobs' is not known. */
      late: (/** @type {number} */ count, /** @type {string} */ what) => {
        this.counters.lost += count;
        this.#log('warn', `${what}: ${count} leases had ended`);
      },
    };
    this.#teller = new Teller(this.#telling, this.#lease_ms, on);
    this.#leases = new Leases(this.#telling, this.#lease_ms, on);
    if (o.signals) closeAtSignals(this);
    // The program may first add its listeners and schedules.
    if (o.autorun) setImmediate(() => this.run().catch(() => {}));
  }

  /** Ids of both connections, as CLIENT LIST shows them; of those to the first of several partitions. */
  get connectionIds() {
    return { taking: this.#taking.current?.id, telling: this.#telling.all[0]?.current?.id };
  }

  /** A job each `interval`. @param {number | string} interval @param {string} name @param {any[]} rest a handler, if it is not the worker's; options */
  every(interval, name, ...rest) {
    return this.#declare(name, { every: interval }, rest);
  }

  /** A job at times of day. @param {string} pattern @param {string} name @param {any[]} rest as of every() */
  cron(pattern, name, ...rest) {
    return this.#declare(name, { cron: pattern }, rest);
  }

  /** @param {string} name @param {any} rule @param {any[]} rest */
  #declare(name, rule, rest) {
    const handler = typeof rest[0] === 'function' ? rest.shift() : this.#handler;
    const { queue = this.#queues[0], ...options } = rest[0] ?? {};
    if (!this.#queues.includes(queue)) throw new TypeError(`schedule ${name}: the worker does not take from queue '${queue}'`);
    if (this.#run) throw new TypeError(`schedule ${name}: the worker is running; declare schedules right after its constructor`);
    const full = `${this.#options.app}:${name}`;
    this.#schedules.set(full, { handler, queue, command: scheduleCommand(queue, full, { ...options, ...rule }, this.#options.codec) });
    return this;
  }

  /** Works until the worker is closed. Fails with the server's error if that refuses it. @returns {Promise<void>} */
  run() {
    return (this.#run ??= this.#closed ? this.#closed.then(() => {}) : this.#work());
  }

  async #work() {
    this.#isReserving = true;
    try {
      await Promise.all([this.#taking.get(), this.#telling.of(this.#queues[0]).get()]);
      const takers = (this.#takers = this.#makeTakers());
      await takers.open();
      this.#leases.start();
      await this.#setSchedules();
      this.#emit('ready');
      await takers.run();
    } catch (/** @type {any} */ error) {
      if (!this.#closed) this.#fail(error);
    }
    this.#isReserving = false;
    this.#changed();
    await this.close();
    if (this.#failure) throw this.#failure;
  }

  async #setSchedules() {
    // The queue follows the subcommand.
    const call = async (/** @type {any[]} */ command) => (await this.#telling.of(command[2]).get()).call(command);
    for (const { command } of this.#schedules.values()) await call(command);
    if (!this.#options.sync) return;
    for (const queue of this.#queues) {
      for (const name of await scheduleNames(call, queue)) {
        if (!name.startsWith(`${this.#options.app}:`) || this.#schedules.get(name)?.queue === queue) continue;
        await call(['DELAY.SCHEDULE', 'DEL', queue, name]);
        this.#log('info', `schedule ${name} of queue ${queue} is declared no more: removed`);
      }
    }
  }

  /** @param {string} queue */
  #linkTo(queue) {
    return new Link(this.#partitions, slotOf(queue), NAME, (text) => this.#log('warn', `taking: ${text}`));
  }

  #makeTakers() {
    const { concurrency, rotate } = this.#options;
    const places = () => concurrency - this.#leases.running.size;
    const queues = this.#partitions.bySlot(this.#queues);
    // Leases are extended over those that there are.
    for (const [queue] of queues) this.#telling.of(queue);
    const links = queues.map(([queue], at) => (at === 0 ? this.#taking : this.#linkTo(queue)));
    return new Takers(queues, links, this.#telling, { lease_ms: this.#lease_ms, rotate }, {
      places,
      hasRoom: () => places() > 0 && this.#teller.untold < UNTOLD_MAX + concurrency,
      isClosed: () => this.#closed !== undefined,
      begin: (job) => this.#begin(job),
      failed: (error) => this.#fail(error),
      until: (condition, limit) => this.#until(condition, limit),
    });
  }

  /** @param {Job} job */
  async #begin(job) {
    const isFull = this.#leases.running.size >= this.#options.concurrency;
    if (this.#closed || isFull || job.deadline <= now()) return this.#giveBack(job);
    let timer;
    this.#leases.running.add(job);
    try {
      const run = this.#prepare(job);
      if (!run) return;
      this.counters.started++;
      this.#emit('active', job);
      if (this.#timeout_ms !== undefined) timer = setTimeout(() => this.#timeOut(job), this.#timeout_ms);
      const result = await run(job.body, job);
      this.#settle(job, undefined, result);
    } catch (error) {
      this.#settle(job, error ?? new Error(`the handler threw ${error}`));
    } finally {
      clearTimeout(timer);
      this.#leases.running.delete(job);
      this.#leases.noticeBlock(job);
      this.#changed();
    }
  }

  /** Decodes the body and finds the handler; without either the job is told already. @param {Job} job */
  #prepare(job) {
    try {
      job.body = this.#options.codec.decode(job.raw);
    } catch (/** @type {any} */ error) {
      this.#log('error', `${job} is buried: its body cannot be decoded: ${error.message}`);
      return this.#settle(job, new Bury(`the body cannot be decoded: ${error.message}`));
    }
    const name = /^(.*)@\d+$/s.exec(job.id)?.[1];
    if (!name?.startsWith(`${this.#options.app}:`)) return this.#handler;
    job.schedule = name.slice(this.#options.app.length + 1);
    const handler = this.#schedules.get(name)?.handler;
    if (!handler) this.#settle(job, new Error(`this program declares no schedule '${name}'`));
    return handler;
  }

  /** Tells what became of a job, once. @param {Job} job @param {any} error @param {unknown} [result] @param {string} [text] of a failure */
  #settle(job, error, result, text = error && described(error)) {
    if (job.isOver) return;
    job.isOver = true;
    if (error === undefined || error instanceof Discard) {
      this.counters.done++;
      this.#teller.ack(job);
      this.#emit('completed', job, result);
    } else if (error instanceof Retry) {
      this.counters.retried++;
      this.#teller.nack(job, 'IN', error.after, 'ERROR', cut(error.message));
    } else if (error instanceof Snooze) {
      this.counters.snoozed++;
      this.#teller.nack(job, 'UNCOUNTED', 'IN', error.after);
    } else if (error instanceof Bury) {
      this.counters.buried++;
      this.#teller.nack(job, 'BURY', 'ERROR', cut(error.message));
    } else {
      this.counters.failed++;
      this.#log('error', `${job} failed at attempt ${job.attempt}: ${described(error).split('\n', 1)[0]}`);
      this.#teller.nack(job, 'ERROR', cut(text));
      this.#emit('failed', job, error);
    }
  }

  /** @param {Job} job */
  #timeOut(job) {
    if (job.isOver) return;
    const error = new DOMException(`timeout: the handler ran longer than ${this.#timeout_ms} ms`, 'TimeoutError');
    this.#settle(job, error, undefined, error.message);
    job.cancel(error);
  }

  /** @param {Job} job */
  #giveBack(job) {
    this.counters.givenBack++;
    job.cancel(new Error(`${job} was given back: the worker is closing, or has no place for it`));
    this.#teller.nack(job, 'UNCOUNTED');
  }

  /** @param {Job} job @param {string} why */
  #lose(job, why) {
    this.counters.lost++;
    job.lost = true;
    const reason = new Error(`the lease of ${job} is lost: ${why}`);
    this.#log('warn', reason.message);
    job.cancel(reason);
    this.#emit('lost', job);
  }

  /** The server refuses what will not change by itself. @param {any} error */
  #fail(error) {
    if (this.#failure) return;
    this.#failure = error;
    this.#log('error', `stops: ${error.message}`);
    if (this.#options.signals) process.exitCode ||= 1;
    if (this.listenerCount('error') > 0) this.#emit('error', error);
    this.close();
  }

  /**
   * Takes no more jobs, waits for handlers until the grace is over, gives back the jobs of those left, and tells all outcomes.
   * A second call may shorten the grace. Whether all was told.
   * @param {number | string} [grace] @returns {Promise<boolean>}
   */
  close(grace = this.#options.grace) {
    this.#graceEnd = Math.min(this.#graceEnd, now() + milliseconds(grace, 'grace'));
    this.#closed ??= this.#shutDown();
    this.#changed();
    return this.#closed;
  }

  async #shutDown() {
    // The caller assigns the promise of this first.
    await null;
    this.#emit('closing');
    const last = () => this.#graceEnd + TELL_AFTER_GRACE_MS;
    if (this.#takers) this.#takers.end();
    else this.#taking.close();
    if (!(await this.#until(() => !this.#isReserving, last))) this.#takers?.close();
    await this.#until(() => this.#leases.running.size === 0, () => this.#graceEnd);
    for (const job of this.#leases.running) if (!job.isOver) this.#giveBack(job);
    await this.#until(() => this.#teller.untold === 0, last);
    this.#leases.stop();
    this.#taking.close();
    this.#takers?.close();
    this.#telling.close();
    forget(this);
    const left = this.#teller.givenUp + this.#teller.untold;
    if (left > 0) this.#log('error', `${left} outcomes could not be told; their leases end by themselves`);
    this.#emit('closed');
    return left === 0 && !this.#failure;
  }

  /** @param {() => boolean} condition @param {() => number} limit @returns {Promise<boolean>} whether it came true */
  async #until(condition, limit = () => Infinity) {
    while (!condition()) {
      const left = limit() - now();
      if (left <= 0) return false;
      await new Promise((/** @type {(value?: any) => void} */ resolve) => {
        const timer = left < TIMER_MS_MAX ? setTimeout(resolve, left) : undefined;
        this.#watchers.add(() => (clearTimeout(timer), resolve()));
      });
    }
    return true;
  }

  #changed() {
    this.#takers?.choose();
    if (this.#watchers.size === 0) return;
    const watchers = [...this.#watchers];
    this.#watchers.clear();
    for (const wake of watchers) wake();
  }

  /** A listener that throws changes nothing. @param {string} event @param {any[]} args */
  #emit(event, ...args) {
    try {
      this.emit(event, ...args);
    } catch (error) {
      this.#log('error', `a listener of '${event}' threw ${described(error)}`);
    }
  }

  /** @param {'info' | 'warn' | 'error'} level @param {string} text */
  #log(level, text) {
    this.#options.logger?.[level]?.(`delayd worker of ${this.#queues.join(', ')}: ${text}`);
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }
}

/** `Type: message` and where it was thrown, whatever that is. @param {any} error */
function described(error) {
  try {
    return String((error instanceof Error && error.stack) || error);
  } catch {
    return 'something that cannot be shown as text';
  }
}

/** At most 1 KiB of UTF-8. @param {string} text */
const cut = (text) => new TextDecoder().decode(Buffer.from(text).subarray(0, ERROR_BYTES_MAX), { stream: true });
