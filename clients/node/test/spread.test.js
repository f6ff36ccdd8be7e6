// A server of several partitions, given by the address of one, and a cluster of such servers whose leaders are killed.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';

import { DelaydError, Queue, Worker } from 'delayd';
import { Connection } from '../node_modules/delayd/lib/connection.js';
import { Partitions, slotOf } from '../node_modules/delayd/lib/partitions.js';

import { Plain, Plains, Server, assert, freePort, keeper, sleep, until } from './support.js';

const PARTITIONS = 4;
const QUEUES = Array.from({ length: 50 }, (_, at) => `q${at}`);
/** One in each partition. */
const FOUR = ['mail', 'a', 'b', '{q}:low'];
const PROGRAM = join(import.meta.dirname ?? new URL('.', import.meta.url).pathname, 'worker_program.js');

const counted = (list) => list.reduce((counts, each) => counts.set(each, (counts.get(each) ?? 0) + 1), new Map());

test('slots are those of Redis Cluster', () => {
  assert.deepEqual(['mail', 'a', 'q', '{mail}:high', '{}q', 'a{b', '123456789', Buffer.from([0xff, 0])].map(slotOf),
    [4247, 15495, 11958, 4247, slotOf(Buffer.from('{}q')), slotOf(Buffer.from('a{b')), 0x31c3, slotOf(Buffer.from([0xff, 0]))]);
  assert.notEqual(slotOf('{}q'), slotOf('q'));
});

describe('several partitions', () => {
  let server;
  let plain;
  const stats = async (queue) => (await plain.map('DELAY.STATS', queue)) ?? {};
  const sum = async (queues, field) => (await Promise.all(queues.map(stats))).reduce((total, each) => total + (each[field] ?? 0), 0);
  const waits = async (queues) => (await Promise.all(queues.map(stats))).every(({ waiters }) => waiters > 0);
  const producers = (queues) => queues.map((name) => new Queue(name, server.url));
  const close = (queues) => Promise.all(queues.map((queue) => queue.close()));
  const start = (queues, handler, options = {}) =>
    new Worker(queues, handler, { connection: server.url, signals: false, logger: keeper(), ...options });

  before(async () => {
    server = await Server.spread(PARTITIONS, '--appendonly', 'no');
    plain = await Plains.open(server);
  });
  after(async () => {
    plain.end();
    await server.end();
  });
  beforeEach(() => Promise.all(plain.all.map((each) => each.call('FLUSHALL'))));

  test('jobs of many queues are done once', async () => {
    const [queues, done] = [producers(QUEUES), []];
    const jobs = Array.from({ length: 5 }, (_, body) => ({ body, attempts: 1 }));
    const early = await Promise.all(queues.map((queue) => queue.addBulk(jobs)));
    const worker = start(QUEUES, (body, job) => void done.push(`${job.queue} ${job.id}`), { concurrency: 8 });
    const later = await Promise.all(queues.map((queue, at) => queue.add(1, { delay: at * 10 })));
    const wanted = QUEUES.flatMap((name, at) => [...early[at], later[at]].map((id) => `${name} ${id}`));
    await until(() => done.length >= wanted.length);
    assert.equal(await worker.close(), true);
    assert.deepEqual(done.toSorted(), wanted.toSorted());
    assert.deepEqual([await sum(QUEUES, 'acked'), await sum(QUEUES, 'leased'), await sum(QUEUES, 'dead')], [wanted.length, 0, 0]);
    assert(worker.counters.givenBack < QUEUES.length, `${worker.counters.givenBack} were fetched for which there was no place`);
    await close(queues);
  });

  test('few places are filled in the order of the queues', async () => {
    const [queues, order] = [producers(FOUR), []];
    await Promise.all(queues.map((queue) => queue.addBulk([{}, {}, {}].map(() => ({ body: 1, attempts: 1 })))));
    let [running, most] = [0, 0];
    const worker = start(FOUR, async (body, job) => {
      most = Math.max(most, ++running);
      order.push(job.queue);
      // While the place is taken nothing waits at the other queues.
      await until(async () => (await sum(FOUR, 'waiters')) === 0, 'no waiters', 2_000);
      running--;
    });
    await until(() => worker.counters.done === 12);
    await queues[1].add(1);
    await until(() => worker.counters.done === 13);
    assert.equal(await worker.close(), true);
    assert.deepEqual(order, [...FOUR.flatMap((name) => [name, name, name]), 'a']);
    assert.equal(most, 1);
    assert.equal(await sum(FOUR, 'delivered'), 13);
    await close(queues);
  });

  test('a job for which there is no place is given back at once', async () => {
    const both = ['a', 'b'];
    const [queues, attempts] = [producers(both), new Set()];
    const worker = start(both, async (body, job) => {
      attempts.add(job.attempt);
      await until(async () => (await sum(both, 'leased')) === 1, 'one lease', 2_000);
    });
    for (let turn = 1; turn < 200 && worker.counters.givenBack === 0; turn++) {
      await until(() => waits(both));
      // Both connections are given a job in the same millisecond.
      const at = new Date(Date.now() + 20);
      await Promise.all(queues.map((queue) => queue.add(1, { delay: at, attempts: 1 })));
      await until(() => worker.counters.done === 2 * turn);
    }
    assert.equal(await worker.close(), true);
    assert(worker.counters.givenBack > 0);
    assert.deepEqual([...attempts], [1]);
    await close(queues);
  });

  test('with rotate the queues take turns, and no connection waits for the end of its RESERVE', async () => {
    const [queues, order] = [producers(FOUR), []];
    await Promise.all(queues.map((queue) => queue.addBulk(Array.from({ length: 10 }, () => ({ body: 1 })))));
    const worker = start(FOUR, (body, job) => void order.push(job.queue), { rotate: true });
    await until(() => worker.counters.done === 40);
    await until(() => waits(FOUR));
    const began = performance.now();
    assert.equal(await worker.close(), true);
    assert(performance.now() - began < 3_000);
    for (let at = 0; at < 40; at += 4) assert.equal(new Set(order.slice(at, at + 4)).size, 4, String(order));
    await close(queues);
  });

  test('every call finds its partition', async () => {
    for (const queue of producers(FOUR)) {
      const ids = Array.from({ length: 1_001 }, (_, at) => `job:${at}`);
      assert.deepEqual(await queue.addBulk(ids.map((id, body) => ({ body, id, delay: '1h' }))), ids);
      assert.deepEqual(await queue.addBulk([{ body: 1, id: 'x' }, { body: 2, id: 'y' }], { atomic: true }), ['x', 'y']);
      await assert.rejects(queue.add(1, { id: 'x' }), { name: 'DelaydError', code: 'EXISTS' });
      assert.equal((await queue.get('job:7')).body, 7);
      assert.equal(await queue.reschedule('job:7', '2h'), true);
      assert.equal(await queue.cancel('job:7'), 'delayed');
      assert.equal((await queue.stats()).delayed, 1_000);
      assert.equal(await queue.purge('delayed'), 1_000);
      assert.equal(await queue.redrive(), 0);
      // Of another queue, also where it is not the first word.
      assert.equal((await queue.call('DELAY.RESERVE', 'NOWAIT', 1, 'mail'))?.[0][0], 'mail');
      await queue.call('DELAY.CONFIG', 'SET', 'full', 'max-jobs', 1);
      await queue.schedule('hourly', { every: '1h' });
      assert.deepEqual(await queue.schedules(), ['hourly']);
      await assert.rejects(queue.call('DELAY.RESERVE', 'NOWAIT', 2, 'a', 'b'), { code: 'CROSSSLOT' });
      await queue.close();
      await queue.call('PING').then(() => assert.fail('closed'), () => {});
      await plain.call('DELAY.ADD', 'mail', 0, 1);
    }
  });

  test('what a server refused that does not lead is sent again', async () => {
    const [queue, real] = [new Queue('a', server.url), Connection.prototype.call];
    let refusals = 3;
    Connection.prototype.call = function (args, waits) {
      const isRefused = args[0] === 'DELAY.ADD' && refusals-- > 0;
      return isRefused ? Promise.reject(new DelaydError(`MOVED 15495 127.0.0.1:${server.port}`)) : real.call(this, args, waits);
    };
    try {
      assert.deepEqual(await queue.addBulk(['1', '2', '3', '4'].map((id) => ({ body: 1, id }))), ['1', '2', '3', '4']);
      refusals = 1;
      assert.equal(await queue.add(1, { id: '5' }), '5');
    } finally {
      Connection.prototype.call = real;
    }
    assert.equal((await queue.stats()).ready, 5);
    await queue.close();
  });

  test('a request without a wait is answered before its connection is closed', async () => {
    const [queue, real] = [new Queue('b', server.url), Connection.prototype.call];
    const worker = start(['a', 'b'], () => sleep(1));
    await until(() => waits(['a', 'b']));
    /** @type {Promise<boolean> | undefined} */
    let closed;
    Connection.prototype.call = function (args, waits) {
      if (args[1] === 'NOWAIT' && args.includes('b')) closed ??= worker.close();
      return real.call(this, args, waits);
    };
    try {
      await queue.addBulk(Array.from({ length: 50 }, () => ({ body: 1, attempts: 1 })));
      assert.equal(await until(() => closed), true);
    } finally {
      Connection.prototype.call = real;
      await worker.close(0);
      await queue.close();
    }
    assert.equal(await sum(['b'], 'leased'), 0);
  });

  test('leases are extended where their jobs are', async () => {
    const queues = producers(FOUR);
    const worker = start(FOUR, () => sleep(1_500), { concurrency: 4, lease: '600ms' });
    await Promise.all(queues.map((queue) => queue.add(1, { attempts: 1 })));
    await until(() => worker.counters.done === 4);
    assert.equal(await worker.close(), true);
    assert.deepEqual([worker.counters.lost, await sum(FOUR, 'timeouts')], [0, 0]);
    await close(queues);
  });

  test('schedules are set where their queues are', async () => {
    for (const names of [['one', 'two'], ['two']]) {
      const worker = start(FOUR, () => {}, { app: 'spread', sync: true, autorun: false });
      for (const [at, queue] of FOUR.entries()) for (const name of names) worker.every('1h', `${name}${at}`, { queue });
      const ready = once(worker, 'ready');
      worker.run();
      await ready;
      for (const [at, queue] of FOUR.entries()) {
        const found = (await plain.call('DELAY.SCHEDULE', 'LIST', queue)).map(([name]) => name);
        assert.deepEqual(found, names.map((name) => `spread:${name}${at}`));
      }
      await worker.close();
    }
  });

  test('SIGTERM gives back in all partitions', async () => {
    for (const work_ms of [0, 1, 3, 20]) {
      await Promise.all(plain.all.map((each) => each.call('FLUSHALL')));
      for (const queue of producers(FOUR)) {
        await queue.addBulk(Array.from({ length: 300 }, (_, body) => ({ body, attempts: 1, delay: body })));
        await queue.close();
      }
      const options = JSON.stringify({ concurrency: 4 });
      const child = spawn(process.execPath, [PROGRAM, server.url, FOUR.join(), options, String(work_ms)], { stdio: ['ignore', 'pipe', 'inherit'] });
      let out = '';
      child.stdout.on('data', (text) => (out += text));
      await until(async () => (await sum(FOUR, 'acked')) > 20);
      child.kill('SIGTERM');
      assert.deepEqual(await once(child, 'close'), [0, null]);
      const [acked, ready, delayed, leased, dead, timeouts] = await Promise.all(['acked', 'ready', 'delayed', 'leased', 'dead', 'timeouts'].map((field) => sum(FOUR, field)));
      assert.deepEqual([leased, dead, timeouts, acked + ready + delayed], [0, 0, 0, 1_200]);
      assert.equal(out.split('\n').length - 2, acked, 'each job that was done was acknowledged, and no other');
    }
  });
});

/** Three nodes of four partitions each, on free ports. */
class Cluster {
  static async start() {
    const cluster = new Cluster();
    cluster.dir = mkdtempSync(join(tmpdir(), 'delayd-node-'));
    cluster.ports = await Promise.all([0, 1, 2].map(() => freePort(2 * PARTITIONS)));
    cluster.nodes = cluster.ports.map((_, at) => (mkdirSync(join(cluster.dir, `n${at}`)), cluster.spawn(at)));
    await Promise.all([0, 1, 2].map((at) => cluster.whole(at)));
    return cluster;
  }

  get urls() {
    return this.ports.map((port) => `redis://127.0.0.1:${port}`);
  }

  spawn(at) {
    const peers = this.ports.map((port, other) => `n${other}=127.0.0.1:${port + PARTITIONS}`).join();
    const options = ['--port', this.ports[at], '--bind', '127.0.0.1', '--dir', join(this.dir, `n${at}`), '--cluster-partitions', PARTITIONS,
      '--cluster-node', `n${at}`, '--cluster-nodes', peers, '--cluster-port', this.ports[at] + PARTITIONS, '--journal-segment-size', '4mb'];
    const child = spawn(process.env.DELAYD_BIN, options.map(String), { stdio: 'ignore' });
    process.on('exit', () => child.kill('SIGKILL'));
    return child;
  }

  /** What each partition of a node says that it is. */
  roles(at) {
    return Promise.all(Array.from({ length: PARTITIONS }, async (_, partition) => {
      const plain = await Plain.open(this.ports[at] + partition).catch(() => undefined);
      const info = await plain?.call('INFO', 'replication').catch(() => undefined);
      plain?.end();
      return /role:master|master_link_status:up/.exec(info)?.[0];
    }));
  }

  whole(at) {
    return until(async () => (await this.roles(at)).every(Boolean), `node ${at}`);
  }

  async leader() {
    for (;;) for (const at of [0, 1, 2]) if ((await this.roles(at)).includes('role:master')) return at;
  }

  async stop(at, signal) {
    if (this.nodes[at].exitCode !== null || this.nodes[at].signalCode !== null) return;
    const gone = once(this.nodes[at], 'exit');
    this.nodes[at].kill(signal);
    await gone;
  }

  async end() {
    await Promise.all([0, 1, 2].map((at) => this.stop(at, 'SIGKILL')));
    rmSync(this.dir, { recursive: true });
  }
}

test('leaders are killed, and nothing is lost or done twice', async () => {
  const cluster = await Cluster.start();
  const [added, done] = [[], []];
  const worker = new Worker(FOUR, (body, job) => void done.push(`${job.queue} ${job.id}`), {
    connection: cluster.urls, signals: false, logger: keeper(), concurrency: 8, lease: '6s',
  });
  const queues = FOUR.map((name) => new Queue(name, { connection: cluster.urls[0] }));
  let ended = false;
  const produce = async (queue) => {
    for (let number = 0; !ended; number++) {
      await queue.add(number, { id: String(number) });
      added.push(`${queue.name} ${number}`);
      await sleep(5);
    }
  };
  // A rejection is looked at in the end.
  const producing = Promise.allSettled(queues.map(produce));
  const goesOn = async () => {
    const at = added.length;
    await until(() => {
      const known = new Set(done);
      return added.length > at + 60 && added.slice(at, at + 60).every((job) => known.has(job));
    }, 'jobs that are added now');
  };
  try {
    await goesOn();
    for (const how of ['SIGKILL', 'SIGTERM']) {
      const leader = await cluster.leader();
      await cluster.stop(leader, how);
      await goesOn();
      cluster.nodes[leader] = cluster.spawn(leader);
      await cluster.whole(leader);
      await goesOn();
    }
    ended = true;
    for (const { reason } of await producing) assert.ifError(reason);
    await until(() => added.every((job) => done.includes(job)), 'all jobs');
    assert.equal(await worker.close(), true);
    assert.deepEqual([...counted(done)].filter(([, times]) => times > 1), []);
    assert.deepEqual([worker.counters.lost, worker.counters.done], [0, done.length]);
  } finally {
    ended = true;
    await worker.close(0);
    await Promise.all(queues.map((queue) => queue.close()));
    await cluster.end();
  }
});

test('one partition with slots', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'delayd-node-'));
  const path = join(dir, 'socket');
  const server = await Server.start('--appendonly', 'no', '--cluster-enabled', 'yes', '--unixsocket', path);
  // A Unix socket has no address that another node's could take the place of, as Sentinels have none.
  for (const connection of [server.url, { path }]) {
    const queues = ['a', 'b'].map((name) => new Queue(name, { connection }));
    await Promise.all(queues.map((queue) => queue.addBulk([{ body: 1 }, { body: 2 }])));
    const worker = new Worker(['a', 'b'], () => {}, { connection, signals: false, logger: keeper() });
    await until(() => worker.counters.done === 4);
    assert.equal(await worker.close(), true);
    await Promise.all(queues.map((queue) => queue.close()));
  }
  await server.end();
  rmSync(dir, { recursive: true });
});

test('of several addresses any may be the one that answers', async () => {
  const server = await Server.start('--appendonly', 'no');
  const free = await freePort();
  const queue = new Queue('a', [`redis://127.0.0.1:${free}`, server.url]);
  assert.equal(await queue.add(1, { id: '1' }), '1');
  await queue.close();
  assert.equal(new Partitions([server.url]).isSpread, false);
  await server.end();
});
