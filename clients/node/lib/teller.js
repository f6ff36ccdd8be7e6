// Tells the server what became of jobs: until it is answered, or too late to matter.

import { Backoff } from './connection.js';
import { passes, stops } from './errors.js';
import { now } from './time.js';

const PAIRS_MAX = 1_000;
const COLLECT_MS = 2;

/** @typedef {import('./job.js').Job} Job */

export class Teller {
  /** Outcomes that the server has not answered yet. */
  untold = 0;
  /** Outcomes that were given up: the leases of their jobs end by themselves. */
  givenUp = 0;
  /** By queue: jobs to acknowledge. @type {Map<any, Job[]>} */
  #ready = new Map();
  #acksUnderWay = 0;
  #isDue = false;
  #links;
  #lease_ms;
  #on;

  /**
   * @param {import('./partitions.js').Links} links
   * @param {number} lease_ms
   * @param {{ told: () => void, late: (count: number, what: string) => void, failed: (error: Error) => void, warn: (text: string) => void }} on
   */
  constructor(links, lease_ms, on) {
    [this.#links, this.#lease_ms, this.#on] = [links, lease_ms, on];
  }

  /** Jobs that are ready at the same time go in one command. @param {Job} job */
  ack(job) {
    this.untold++;
    const jobs = this.#ready.get(job.rawQueue);
    if (jobs) jobs.push(job);
    else this.#ready.set(job.rawQueue, [job]);
    if (jobs && jobs.length >= PAIRS_MAX) return this.#flush();
    if (this.#isDue) return;
    this.#isDue = true;
    // While the server is busy with some, more of them come together.
    if (this.#acksUnderWay === 0) setImmediate(() => this.#flush());
    else setTimeout(() => this.#flush(), COLLECT_MS);
  }

  #flush() {
    this.#isDue = false;
    for (const [queue, jobs] of this.#ready) this.#sendAcks(queue, jobs);
    this.#ready.clear();
  }

  /** @param {any} queue @param {Job[]} jobs */
  async #sendAcks(queue, jobs) {
    // The token is good for ACK until the next delivery, which begins after the lease at the earliest.
    const until = Math.max(...jobs.map((job) => job.deadline)) + this.#lease_ms;
    this.#acksUnderWay++;
    await this.#tell(['DELAY.ACK', queue, ...jobs.flatMap((job) => [job.rawId, job.token])], jobs.length, until, `ACK of ${jobs[0]}`);
    this.#acksUnderWay--;
  }

  /** @param {Job} job @param {...string} how */
  nack(job, ...how) {
    this.untold++;
    // A time that is too far away, for example: the job fails instead.
    const instead = how[0] === 'ERROR' ? undefined : (/** @type {string} */ why) => ['DELAY.NACK', ...job.key, 'ERROR', why];
    return this.#tell(['DELAY.NACK', ...job.key, ...how], 1, job.deadline + this.#lease_ms, `NACK of ${job}`, instead);
  }

  /**
   * @param {any[]} command @param {number} outcomes @param {number} until @param {string} what
   * @param {(why: string) => any[]} [instead] what to say if the server does not take the command
   */
  async #tell(command, outcomes, until, what, instead) {
    const [backoff, link] = [new Backoff(), this.#links.of(command[1])];
    let repeated = false;
    for (;;) {
      try {
        const applied = await (await link.get()).call(command);
        // A command that is repeated may have been applied the first time.
        if (applied < outcomes && !repeated) this.#on.late(outcomes - applied, what);
        break;
      } catch (/** @type {any} */ error) {
        if (stops(error)) this.#on.failed(error);
        else if (!passes(error, true)) {
          this.#on.warn(`${what}: ${error.message}`);
          if (instead) {
            [command, instead] = [instead(error.message), undefined];
            continue;
          }
        }
        if (!passes(error, true) || link.signal.aborted || now() > until) {
          this.givenUp += outcomes;
          break;
        }
        repeated ||= error.code === 'CONNECTION';
        await backoff.wait(link.signal);
      }
    }
    this.untold -= outcomes;
    this.#on.told();
  }
}
