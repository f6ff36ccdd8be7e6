// A worker as a program of its own: node worker_program.js URL QUEUES OPTIONS WORK_MS. It prints a line for each job that it did,
// and says of a long one when it has begun.

import { setTimeout as sleep } from 'node:timers/promises';

import { Worker } from 'delayd';

const [url, queue, options, work_ms] = process.argv.slice(2);
const worker = new Worker(queue.split(','), async (body, job) => {
  if (Number(work_ms) > 1_000) console.error('begun');
  // What is cancelled ends at once.
  await sleep(Number(work_ms) * (body % 3), undefined, { signal: job.signal });
  console.log(job.id);
}, { connection: url, ...JSON.parse(options) });
worker.once('ready', () => console.log('ready'));
