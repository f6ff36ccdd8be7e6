// SIGTERM and SIGINT end all workers of the process in order; a second one ends their grace.

import { setTimeout as sleep } from 'node:timers/promises';

const PRINT_MS = 500;
const SIGNALS = /** @type {const} */ (['SIGTERM', 'SIGINT']);
/** @type {Set<import('./worker.js').Worker>} */
const workers = new Set();
let isEnding = false;

/** @param {import('./worker.js').Worker} worker */
export function closeAtSignals(worker) {
  if (workers.size === 0) for (const signal of SIGNALS) process.on(signal, onSignal);
  workers.add(worker);
}

/** @param {import('./worker.js').Worker} worker */
export function forget(worker) {
  if (workers.delete(worker) && workers.size === 0 && !isEnding) for (const signal of SIGNALS) process.off(signal, onSignal);
}

/** @param {NodeJS.Signals} signal */
async function onSignal(signal) {
  if (isEnding) return workers.forEach((worker) => worker.close(0));
  isEnding = true;
  // A program with a listener of its own ends itself.
  const isOurs = process.listenerCount(signal) === 1;
  const told = await Promise.all([...workers].map((worker) => worker.close()));
  const status = told.every(Boolean) ? 0 : 1;
  if (isOurs) {
    await printed();
    process.exit(status);
  }
  process.exitCode ||= status;
}

/** What was written to a pipe that is full is lost by exit(). */
const printed = () =>
  Promise.race([
    Promise.all([process.stdout, process.stderr].map((stream) => new Promise((resolve) => stream.write('', resolve)))),
    sleep(PRINT_MS),
  ]);
