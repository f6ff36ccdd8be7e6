// SIGTERM at any instant: no job waits for a lease afterwards, and no attempt is counted for what was given back.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Plain, Server, assert, sleep, until } from './support.js';

const INSTANTS = Number(process.env.DELAYD_SIGTERMS ?? 20);
const SEED = Number(process.env.DELAYD_SEED ?? Date.now() % 1e9);
console.log(`# DELAYD_SEED=${SEED} DELAYD_SIGTERMS=${INSTANTS}`);
const AT_A_TIME = 3;
const JOBS = 3_000;
const PROGRAM = join(import.meta.dirname ?? new URL('.', import.meta.url).pathname, 'worker_program.js');

let state = SEED >>> 0;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

function program(url, queue, options, work_ms) {
  const child = spawn(process.execPath, [PROGRAM, url, queue, JSON.stringify(options), String(work_ms)], { stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  child.once('exit', () => running.delete(child));
  let out = '';
  const all = {
    child,
    log: '',
    gone: once(child, 'close'),
    get lines() {
      return out.split('\n').slice(0, -1);
    },
  };
  child.stdout.on('data', (text) => (out += text));
  child.stderr.on('data', (text) => (all.log += text));
  return all;
}

/** Fills a queue over a plain connection, in pipelines. */
async function fill(plain, queue, jobs) {
  await Promise.all(Array.from({ length: jobs }, (_, at) => plain.call('DELAY.ADD', queue, 0, at, 'ID', `job:${at}`)));
}

/** Every job is done or ready, and none of those has an attempt. */
async function check(plain, queue, jobs, { lines, log }) {
  const stats = await plain.map('DELAY.STATS', queue);
  const what = () => `${queue}: ${JSON.stringify(stats)}\n${log}`;
  assert.equal(stats.leased, 0, `a job waits for its lease: ${what()}`);
  assert.equal(stats.acked + stats.ready, jobs, what());
  assert.deepEqual([stats.timeouts, stats.dead, stats.delayed], [0, 0, 0], what());
  assert.equal(new Set(lines).size - 1, stats.acked, `each job that was done was acknowledged, and no other: ${what()}`);
  for (const [id] of await plain.call('DELAY.PEEK', queue, 'READY', 'COUNT', 200)) {
    assert.equal((await plain.map('DELAY.GET', queue, id)).attempt, 0, `an attempt was counted: ${what()}`);
  }
}

describe('shutdown', () => {
  test(`SIGTERM at ${INSTANTS} random instants under load`, async () => {
    const server = await Server.start('--appendonly', 'no');
    const plain = await Plain.open(server.port);
    let left = INSTANTS;
    const some = async (number) => {
      for (let turn = 0; left-- > 0; turn++) {
        const queue = `q:${number}:${turn}`;
        await fill(plain, queue, JOBS);
        // Handlers that end in time, and those that outlast the grace.
        const [work_ms, grace] = random() < 0.5 ? [3, '20s'] : [40, '20ms'];
        const options = { concurrency: 1 + Math.floor(random() * 50), grace, lease: '60s' };
        const worker = program(server.url, queue, options, work_ms);
        await until(() => worker.lines.length > 0 || worker.child.exitCode !== null, 'the worker');
        await sleep(random() * 300);
        worker.child.kill(random() < 0.8 ? 'SIGTERM' : 'SIGINT');
        const [status, signal] = await worker.gone;
        assert.deepEqual([status, signal], [0, null], worker.log);
        await check(plain, queue, JOBS, worker);
        await plain.call('DEL', queue);
      }
    };
    try {
      await Promise.all(Array.from({ length: AT_A_TIME }, (_, number) => some(number)));
    } finally {
      plain.end();
      await server.end();
    }
  });

  test('a second signal ends the grace, and a signal before the first job is in order, too', async () => {
    const server = await Server.start('--appendonly', 'no');
    const plain = await Plain.open(server.port);
    await plain.call('DELAY.ADD', 'a', 0, 2, 'ID', 'long');
    const worker = program(server.url, 'a', { grace: '60s' }, 30_000);
    // One that is leased and not begun would be given back.
    await until(() => /begun/.test(worker.log), 'the job');
    worker.child.kill('SIGTERM');
    await sleep(100);
    assert.equal(worker.child.exitCode, null, 'it waits for its job');
    worker.child.kill('SIGTERM');
    assert.deepEqual(await worker.gone, [0, null]);
    const { ready, leased } = await plain.map('DELAY.STATS', 'a');
    assert.deepEqual([ready, leased], [1, 0]);
    const idle = program(server.url, 'b', {}, 1);
    await until(() => idle.lines.length > 0, 'the worker');
    idle.child.kill('SIGINT');
    assert.deepEqual(await idle.gone, [0, null]);
    plain.end();
    await server.end();
  });

  test('what cannot be told ends with status 1, soon after the grace', async () => {
    const server = await Server.start('--appendonly', 'no');
    const plain = await Plain.open(server.port);
    await fill(plain, 'a', 3);
    const worker = program(server.url, 'a', { grace: '300ms' }, 1);
    await until(() => worker.lines.length > 3, 'the jobs');
    // A job that certainly runs when the server stands still: one that ended before leaves nothing to tell.
    await plain.call('DELAY.ADD', 'b', 0, 2, 'ID', 'long');
    const cut = program(server.url, 'b', { grace: '300ms' }, 30_000);
    await until(() => /begun/.test(cut.log), 'the job');
    plain.end();
    server.child.kill('SIGSTOP');
    const began = performance.now();
    cut.child.kill('SIGTERM');
    assert.deepEqual(await cut.gone, [1, null], cut.log);
    assert(performance.now() - began < 5_000, 'grace and a second');
    assert.match(cut.log, /could not be told/);
    server.child.kill('SIGCONT');
    worker.child.kill('SIGTERM');
    assert.deepEqual(await worker.gone, [0, null]);
    await server.end();
  });

  test('a program with a listener of its own ends itself', async () => {
    const server = await Server.start('--appendonly', 'no');
    const source = `
      import { Worker } from 'delayd';
      const worker = new Worker('a', () => {}, { connection: '${server.url}' });
      worker.once('ready', () => process.kill(process.pid, 'SIGTERM'));
      process.on('SIGTERM', async () => {
        await worker.close();
        console.log('mine');
      });`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', source], { stdio: ['ignore', 'pipe', 'inherit'], cwd: join(PROGRAM, '..') });
    const [[text], [status]] = await Promise.all([once(child.stdout, 'data'), once(child, 'exit')]);
    assert.deepEqual([String(text), status], ['mine\n', 0]);
    await server.end();
  });
});
