// delayd for Node: producers and workers. Types are in index.d.ts.

export { DelaydError, Bury, Discard, Retry, Snooze } from './errors.js';
export { Job, bytes, json } from './job.js';
export { Queue } from './queue.js';
export { startDelayd } from './server.js';
export { Worker } from './worker.js';
