// Takes jobs, as many as there are free places: over one connection for each slot that the worker's queues are in.

import { setImmediate as nextTurn } from 'node:timers/promises';

import { Backoff } from './connection.js';
import { passes } from './errors.js';
import { Job } from './job.js';
import { now } from './time.js';

const WAIT_MS = 5_000;
const START_MS = 5_000;
const UNBLOCK_AGAIN_MS = 50;
/** For each taker: with fewer, those whose queues are empty would be asked more often than those with jobs. */
const EMPTY_FOR_MS = 1;

/**
 * @typedef {object} On
 * @property {() => number} places how many are free
 * @property {() => boolean} hasRoom whether a job can be started, and its outcome kept
 * @property {() => boolean} isClosed
 * @property {(job: Job) => void} begin
 * @property {(error: any) => void} failed
 * @property {(condition: () => boolean, limit?: () => number) => Promise<boolean>} until
 */
/**
 * `calls`: how many there were; `asked`: the number of its last turn; `empty`: when it last found no job; `enter`: begins its turn.
 * @typedef {{ link: import('./connection.js').Link, queues: string[], calls: number, asked: number, empty: number, enter?: () => void,
 *   isBusy: boolean, isWaiting: boolean, isEnding: boolean }} Taker
 */

export class Takers {
  /** In the order of their queues. @type {Taker[]} */
  all;
  /** Those that will ask: one after the other, while fewer places are free than there are takers. @type {Set<Taker>} */
  #here;
  /** @type {Taker | undefined} */
  #asking;
  #turns = 0;
  #telling;
  #lease_ms;
  #rotate;
  #on;

  /**
   * @param {string[][]} queues that one command may name @param {import('./connection.js').Link[]} links to each of these
   * @param {import('./partitions.js').Links} telling
   * @param {{ lease_ms: number, rotate: boolean }} options @param {On} on
   */
  constructor(queues, links, telling, { lease_ms, rotate }, on) {
    this.all = queues.map((some, at) => ({ link: links[at], queues: some, calls: 0, asked: 0, empty: -Infinity, isBusy: false, isWaiting: false, isEnding: false }));
    this.#here = new Set(this.all);
    [this.#telling, this.#lease_ms, this.#rotate, this.#on] = [telling, lease_ms, rotate, on];
  }

  get #areAlone() {
    return this.all.length === 1;
  }

  /** Opens their connections. A partition that cannot be reached does not keep the others from beginning. */
  async open() {
    const until = this.#areAlone ? Infinity : now() + START_MS;
    await Promise.all(this.all.map(({ link }) => link.get(until).catch((error) => {
      if (this.#areAlone || !passes(error)) throw error;
    })));
  }

  /** Until the worker is closed. */
  async run() {
    await Promise.all(this.all.map((taker) => this.#work(taker)));
  }

  /** Ends what the takers wait for, so that the replies are read: jobs may be in them. */
  end() {
    for (const taker of this.all) {
      if (taker.isWaiting) this.#unblock(taker);
      else if (this.#on.isClosed() && !taker.isBusy) taker.link.close();
    }
  }

  close() {
    for (const { link } of this.all) link.close();
  }

  /** Lets the next taker ask, if none does: when a place is free, or another one has asked. Once the worker is closed, all go on. */
  choose() {
    if (this.#areAlone) return;
    const may = this.#on.isClosed() ? this.all : this.#asking || !this.#on.hasRoom() ? [] : this.#first();
    for (const taker of may) taker.enter?.();
  }

  /** @param {Taker} taker */
  async #work(taker) {
    const backoff = new Backoff();
    while (this.#areAlone ? await this.#room() : !this.#on.isClosed()) {
      try {
        if (!taker.link.current) this.#leave(taker);
        const connection = await taker.link.get();
        if (this.#on.isClosed()) return;
        await this.#take(taker, connection);
        backoff.reset();
      } catch (error) {
        this.#leave(taker);
        if (this.#on.isClosed()) return;
        if (!passes(error, true)) return this.#on.failed(error);
        await backoff.wait(taker.link.signal);
      }
    }
  }

  /** Waits for a free place. False when the worker is closed. */
  async #room() {
    const { hasRoom, isClosed, until } = this.#on;
    if (!isClosed() && !hasRoom()) {
      await until(() => isClosed() || hasRoom());
      // What else ends in this turn of the loop frees its place for the same request.
      await nextTurn();
    }
    return !isClosed();
  }

  /** @param {Taker} taker @param {import('./connection.js').Connection} connection */
  async #take(taker, connection) {
    const { places, hasRoom, isClosed } = this.#on;
    if (this.#areAlone) return this.#reserve(taker, connection, places(), this.#wait_ms);
    if ((places() < this.all.length || !hasRoom()) && !(await this.#turn(taker, connection))) return undefined;
    this.#leave(taker);
    if (places() === 0 || isClosed()) return undefined;
    // Each waits for its share. Jobs for which there is no place in the end are given back.
    return this.#reserve(taker, connection, Math.max(1, Math.floor(places() / this.all.length)), this.#wait_ms);
  }

  /** Asks without waiting, when it is its turn. Whether there was no job. @param {Taker} taker @param {import('./connection.js').Connection} connection */
  async #turn(taker, connection) {
    const wasFull = !this.#on.hasRoom();
    this.#here.add(taker);
    await new Promise((/** @type {(value?: any) => void} */ resolve) => {
      taker.enter = () => (([this.#asking, taker.enter] = [taker, undefined]), resolve());
      this.choose();
    });
    try {
      if (wasFull) await nextTurn();
      if (this.#on.isClosed() || connection.lost || this.#on.places() === 0) return false;
      taker.asked = ++this.#turns;
      return (await this.#reserve(taker, connection, this.#on.places())) === 0;
    } finally {
      // It is still here: if it has found jobs, it comes before those of later queues again.
      this.#asking = undefined;
      this.choose();
    }
  }

  /** Queues without jobs are not asked again at once while others have some. @returns {Taker[]} one, or none */
  #first() {
    const here = this.all.filter((taker) => this.#here.has(taker));
    const before = now() - EMPTY_FOR_MS * this.all.length;
    const full = here.filter((taker) => taker.empty <= before);
    const some = full.length > 0 ? full : here;
    return this.#rotate ? some.toSorted((a, b) => a.asked - b.asked).slice(0, 1) : some.slice(0, 1);
  }

  /** It waits, or cannot ask: the next one may. @param {Taker} taker */
  #leave(taker) {
    this.#here.delete(taker);
    this.choose();
  }

  // A wait that is longer would use up the lease, which is counted from before it.
  get #wait_ms() {
    return Math.min(WAIT_MS, Math.floor(this.#lease_ms / 3));
  }

  /**
   * @param {Taker} taker @param {import('./connection.js').Connection} connection @param {number} count
   * @param {number} [wait_ms] @returns {Promise<number>} how many came
   */
  async #reserve(taker, connection, count, wait_ms) {
    const first = this.#rotate ? taker.calls++ % taker.queues.length : 0;
    const queues = [...taker.queues.slice(first), ...taker.queues.slice(0, first)];
    const wait = wait_ms === undefined ? 'NOWAIT' : String(wait_ms / 1_000);
    const sent = now();
    [taker.isBusy, taker.isWaiting] = [true, wait_ms !== undefined];
    const command = ['DELAY.RESERVE', wait, String(queues.length), ...queues, 'COUNT', String(count), 'LEASE', `${this.#lease_ms}ms`, 'META'];
    const jobs = (await connection.call(command, wait_ms).finally(() => ([taker.isBusy, taker.isWaiting] = [false, false]))) ?? [];
    taker.empty = jobs.length > 0 ? -Infinity : now();
    for (const job of jobs) this.#on.begin(new Job(job, sent + this.#lease_ms));
    // What the others wait for could not be started.
    if (this.#on.places() === 0) this.end();
    return jobs.length;
  }

  /** @param {Taker} taker */
  async #unblock(taker) {
    if (taker.isEnding) return;
    taker.isEnding = true;
    while (taker.isWaiting && (this.#on.isClosed() || this.#on.places() === 0)) {
      const { id } = taker.link.current ?? {};
      if (id === undefined) break;
      const connection = await this.#telling.of(taker.queues[0]).get().catch(() => undefined);
      await connection?.call(['CLIENT', 'UNBLOCK', String(id)]).catch(() => {});
      const again = now() + UNBLOCK_AGAIN_MS;
      await this.#on.until(() => !taker.isWaiting, () => again);
    }
    taker.isEnding = false;
  }
}
