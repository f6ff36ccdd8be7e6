// Keeps the leases of running jobs, and notices those that are lost.

import { passes } from './errors.js';
import { now } from './time.js';

const BEAT_MS = { least: 10, most: 250 };
const NAMED_MAX = 3;

/** @typedef {import('./job.js').Job} Job */

export class Leases {
  /** Jobs whose handlers run. @type {Set<Job>} */
  running = new Set();
  /** When the jobs of each connection's partition were extended. @type {Map<any, number>} */
  #extended = new Map();
  #started = now();
  #beaten = now();
  #beat_ms;
  /** @type {any} */
  #timer;
  #links;
  #lease_ms;
  #on;

  /**
   * @param {import('./partitions.js').Links} links
   * @param {number} lease_ms
   * @param {{ lost: (job: Job, why: string) => void, failed: (error: any) => void, warn: (text: string) => void }} on
   */
  constructor(links, lease_ms, on) {
    [this.#links, this.#lease_ms, this.#on] = [links, lease_ms, on];
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
    for (const link of this.#links.all) {
      if (time - (this.#extended.get(link) ?? this.#started) >= this.#lease_ms / 3) this.#extend(link, time);
    }
  }

  /** All of a partition in one pipeline. @param {import('./connection.js').Link} link @param {number} time */
  #extend(link, time) {
    const connection = link.current;
    // After a loss the next beat tries again.
    if (!connection) return void link.get().catch(this.#on.failed);
    this.#extended.set(link, time);
    for (const job of this.running) {
      if (job.isOver || this.#links.of(job.rawQueue) !== link) continue;
      connection.call(['DELAY.EXTEND', ...job.key, `${this.#lease_ms}ms`]).then(
        (end) => {
          if (job.isOver) return;
          if (end === null) this.#on.lost(job, 'the server has ended it');
          else job.deadline = time + this.#lease_ms;
        },
        (error) => {
          this.#extended.set(link, -Infinity);
          if (!passes(error, true)) this.#on.failed(error);
        },
      );
    }
  }
}
