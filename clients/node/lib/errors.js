// What a handler throws to steer its job, and what a call to the server fails with.

import { when } from './time.js';

/** What a handler throws to steer its job. It is no failure, so it is not logged. */
class Steer extends Error {
  /** @param {string} [message] */
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** Try the job again after this time instead of after its backoff. The attempt counts. */
export class Retry extends Steer {
  /** @param {number | string | Date} after @param {string} [reason] kept with the job */
  constructor(after, reason = 'retry') {
    super(reason);
    this.after = when(after, 'Retry after');
  }
}

/** Deliver the job again after this time. The attempt does not count. */
export class Snooze extends Steer {
  /** @param {number | string | Date} after */
  constructor(after) {
    super('snooze');
    this.after = when(after, 'Snooze after');
  }
}

/** Make the job dead now, whatever attempts are left. */
export class Bury extends Steer {
  /** @param {string} [reason] kept with the job */
  constructor(reason = 'buried by its handler') {
    super(reason);
  }
}

/** Acknowledge the job, as if its handler had returned. */
export class Discard extends Steer {}

/** An error of the server, or a lost connection. */
export class DelaydError extends Error {
  name = 'DelaydError';
  /** @param {string} message @param {string} [code] the error class: `EXISTS`, `FULL`, `OOM` …; `CONNECTION` for a lost connection */
  constructor(message, code = message.split(' ', 1)[0]) {
    super(message);
    this.code = code;
  }
  /** Of a queue that another server has: its hash slot. */
  get slot() {
    return this.code === 'MOVED' ? Number(this.message.split(' ')[1]) : undefined;
  }
}

/** @param {string} message */
export const connectionError = (message) => new DelaydError(message, 'CONNECTION');

/** What a client library rejected with, as an error of ours. @param {unknown} error */
export function asDelaydError(error) {
  if (error instanceof DelaydError) return error;
  const message = (error instanceof Error && error.message) || String(error);
  return /^[A-Z]+ /.test(message) ? new DelaydError(message) : connectionError(message);
}

// The server refused the command and will accept it later: it is loading, is not the leader, has no majority, or is out of room.
const ANOTHER_LEADS = new Set(['READONLY', 'MASTERDOWN', 'MOVED', 'CLUSTERDOWN']);
const PASSING = new Set([...ANOTHER_LEADS, 'CONNECTION', 'LOADING', 'TRYAGAIN', 'BUSY', 'UNBLOCKED']);
const OUT_OF_ROOM = new Set(['OOM', 'MISCONF']);
const REFUSED = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM']);

/** Whether the same command may succeed later. A worker also waits for memory and disk; a producer is told. @param {any} error */
export function passes(error, waitsForRoom = false) {
  if (!(error instanceof DelaydError)) return false;
  return PASSING.has(error.code) || (waitsForRoom && OUT_OF_ROOM.has(error.code)) || /^ERR max number of clients/.test(error.message);
}

/** Whether no command of this kind will ever succeed. @param {any} error */
export const stops = (error) => !(error instanceof DelaydError) || REFUSED.has(error.code) || /^ERR unknown command/.test(error.message);

/** Whether it may succeed over another connection only. @param {DelaydError} error */
export const anotherLeads = (error) => ANOTHER_LEADS.has(error.code);
