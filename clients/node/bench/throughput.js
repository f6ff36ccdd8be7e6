// Empty jobs a second and lateness at the handler, delayd beside BullMQ on Redis, one after the other on this machine.
//
//   clients/node/bench/run [JOBS] [CONCURRENCY]
//
// Producer, worker and server share the machine. Each figure is the median of ROUNDS rounds; the sides take turns.

import { spawn, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Queue as BullQueue, Worker as BullWorker } from 'bullmq';
import { Queue, Worker } from 'delayd';

const JOBS = Number(process.argv[2] ?? 30_000);
const CONCURRENCY = Number(process.argv[3] ?? 100);
const ROUNDS = Number(process.env.DELAYD_ROUNDS ?? 5);
const LATE = { jobs: 2_000, apart_ms: 5, ahead_ms: 1_000 };

const freePort = async () => {
  const probe = net.createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  return port;
};

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

async function server(command, ...options) {
  const [port, dir] = [await freePort(), mkdtempSync(join(tmpdir(), 'delayd-bench-'))];
  const child = spawn(command, ['--port', port, '--bind', '127.0.0.1', '--dir', dir, ...options].map(String), { stdio: 'ignore' });
  running.add(child);
  for (let open = false; !open; await sleep(20)) {
    open = await new Promise((resolve) => net.connect(port, '127.0.0.1').on('connect', () => resolve(true)).on('error', () => resolve(false)));
  }
  return { port, end: async () => (child.kill('SIGKILL'), await once(child, 'exit'), running.delete(child), rmSync(dir, { recursive: true })) };
}

/** One side: how it adds many jobs and how it works. */
const sides = {
  delayd: (port) => {
    const connection = `redis://127.0.0.1:${port}`;
    const queue = new Queue('bench', connection);
    return {
      add: (count) => queue.addBulk(Array.from({ length: count }, (_, at) => ({ body: at }))),
      addDue: (times) => queue.addBulk(times.map((due) => ({ body: due, delay: new Date(due) }))),
      work: (handler, concurrency) => new Worker('bench', handler, { connection, concurrency, signals: false, logger: null }),
      close: () => queue.close(),
    };
  },
  bullmq: (port) => {
    const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
    const queue = new BullQueue('bench', { connection });
    const opts = { removeOnComplete: true };
    return {
      add: async (count) => {
        for (let at = 0; at < count; at += 1_000) await queue.addBulk(Array.from({ length: Math.min(1_000, count - at) }, (_, n) => ({ name: 'job', data: at + n, opts })));
      },
      addDue: (times) => queue.addBulk(times.map((due) => ({ name: 'job', data: due, opts: { ...opts, delay: due - Date.now() } }))),
      work: (handler, concurrency) => new BullWorker('bench', async (job) => handler(job.data), { connection, concurrency }),
      close: () => queue.close(),
    };
  },
};

/** Jobs a second, from the first handler until the worker has closed: all of them are there before, and acknowledged after. */
async function throughput(side) {
  await side.add(JOBS);
  let left = JOBS, began;
  const done = await new Promise((resolve) => {
    const worker = side.work(() => {
      began ??= performance.now();
      if (--left === 0) resolve(worker);
    }, CONCURRENCY);
  });
  await done.close();
  const ended = performance.now();
  return Math.round(JOBS / ((ended - began) / 1_000));
}

/** How long after its due time a handler begins, while its worker waits, in whole ms: p50 and p99. */
async function lateness(side) {
  const first = Date.now() + LATE.ahead_ms;
  const late = [];
  await new Promise((resolve, reject) => {
    const worker = side.work((due) => {
      // The server's clock: that of performance runs apart from it.
      late.push(Date.now() - due);
      if (late.length === LATE.jobs) setImmediate(() => worker.close().then(resolve, reject));
    }, CONCURRENCY);
    side.addDue(Array.from({ length: LATE.jobs }, (_, at) => first + at * LATE.apart_ms)).catch(reject);
  });
  late.sort((a, b) => a - b);
  return [0.5, 0.99].map((share) => late[Math.floor(late.length * share)]);
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const delayd = process.env.DELAYD_BIN;
const servers = {
  'delayd, in memory': ['delayd', delayd, '--appendonly', 'no'],
  'delayd, as it is (appendfsync always)': ['delayd', delayd],
  'BullMQ, Redis as it is': ['bullmq', 'redis-server', '--save', ''],
};
const figures = Object.fromEntries(Object.keys(servers).map((name) => [name, { rates: [], p50: [], p99: [] }]));
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, [kind, ...command]] of Object.entries(servers)) {
    const { port, end } = await server(...command);
    const side = sides[kind](port);
    figures[name].rates.push(await throughput(side));
    const [p50, p99] = await lateness(side);
    figures[name].p50.push(p50);
    figures[name].p99.push(p99);
    await side.close();
    await end();
    console.error(`round ${round + 1}: ${name}: ${figures[name].rates.at(-1)} jobs/s, late ${p50} / ${p99} ms`);
  }
}
const version = (command, ...args) => execFileSync(command, args, { encoding: 'utf8' }).split('\n')[0];
console.log(`${JOBS} empty jobs, concurrency ${CONCURRENCY}, median of ${ROUNDS} rounds; ${process.version}, ${version('redis-server', '--version')}`);
for (const [name, { rates, p50, p99 }] of Object.entries(figures)) {
  console.log(`${name}: ${median(rates)} jobs/s (${Math.min(...rates)} to ${Math.max(...rates)}); late ${median(p50)} ms p50, ${median(p99)} ms p99`);
}
process.exit();
