// A test mode: handlers are called at once, without a server. What needs one starts the real one: startDelayd().

import { Bury, Discard, Retry, Snooze } from './errors.js';
import { Job, json } from './job.js';

/**
 * Calls a handler with a body that went through the codec, and answers what a worker would tell.
 * @param {(body: any, job: any) => unknown} handler @param {any} [body] @param {any} [options]
 */
export async function runInline(handler, body, { id = 'job', queue = 'queue', attempt = 1, codec = json, group = null, meta = {} } = {}) {
  const [name, key, raw, token] = [queue, id, codec.encode(body), '1'].map((each) => Buffer.from(each));
  const headers = Object.entries(meta).flat().map((each) => Buffer.from(each));
  const job = new Job([name, key, raw, token, attempt, Date.now(), 0, group === null ? null : Buffer.from(group), headers], Infinity);
  try {
    job.body = codec.decode(job.raw);
  } catch (error) {
    return { outcome: 'buried', error };
  }
  try {
    return { outcome: 'done', result: await handler(job.body, job) };
  } catch (error) {
    if (error instanceof Discard) return { outcome: 'done', error };
    if (error instanceof Retry) return { outcome: 'retried', after: error.after, error };
    if (error instanceof Snooze) return { outcome: 'snoozed', after: error.after, error };
    return { outcome: error instanceof Bury ? 'buried' : 'failed', error };
  }
}
