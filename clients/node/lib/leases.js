// Keeps the leases of running jobs, and notices those that are lost.

import { passes } from './errors.js';
import { now } from './time.js';

const BEAT_MS = { least: 10, most: 250 };
const NAMED_MAX = 3;

/** @typedef {import('./job.js').Job} Job */

export class Leases {
  /** Jobs whose handlers run. @type {Set<Job>} */
  running = new Set();
  #extended = now();
  #beaten = now();
  #beat_ms;
  /** @type {any} */
  #timer;
  #link;
  #lease_ms;
  #on;

  /**
   * @param {import('./connection.js').Link} link
   * @param {number} lease_ms
   * @param {{ lost: (job: Job, why: string) => void, failed: (error: any) => void, warn: (text: string) => void }} on
   */
  constructor(link, lease_ms, on) {
    [this.#link, this.#lease_ms, this.#on] = [link, lease_ms, on];
    this.#beat_ms = Math.min(Math.max(lease_ms / 12, BEAT_MS.least), BEAT_MS.most);
  }

  start() {
    this.#beaten = now();
    this.#timer = setInterval(() => this.#beat(), this.#beat_ms);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Handlers and the timer share one thread: whoever comes first after a block notices it. @param {Job} [job] that has just ended */
  noticeBlock(job) {
    const since_ms = now() - this.#beaten;
    if (!this.#timer || since_ms <= this.#lease_ms / 2 + this.#beat_ms) return;
    this.#beaten = now();
    const named = (job ? [job] : [...this.running]).slice(0, NAMED_MAX).join(', ') || 'no job';
    this.#on.warn(
      `the event loop was blocked for ${Math.round(since_ms)} ms, more than half a lease of ${this.#lease_ms} ms, while ${named} ran: ` +
        'leases are not extended meanwhile. Give way to the loop, use worker threads, or a longer lease',
    );
  }

  #beat() {
    this.noticeBlock();
    const time = (this.#beaten = now());
    for (const job of this.running) {
      if (!job.isOver && job.deadline <= time) this.#on.lost(job, 'it could not be extended in time');
    }
    if (time - this.#extended >= this.#lease_ms / 3) this.#extend(time);
  }

  /** All in one pipeline. @param {number} time */
  #extend(time) {
    const connection = this.#link.current;
    // After a loss the next beat tries again.
    if (!connection) return void this.#link.get().catch(this.#on.failed);
    this.#extended = time;
    for (const job of this.running) {
      if (job.isOver) continue;
      connection.call(['DELAY.EXTEND', ...job.key, `${this.#lease_ms}ms`]).then(
        (end) => {
          if (job.isOver) return;
          if (end === null) this.#on.lost(job, 'the server has ended it');
          else job.deadline = time + this.#lease_ms;
        },
        (error) => {
          this.#extended = -Infinity;
          if (!passes(error, true)) this.#on.failed(error);
        },
      );
    }
  }
}
