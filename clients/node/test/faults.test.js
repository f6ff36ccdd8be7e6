// Whatever happens to connections and servers, each job is done, and none twice unless a lease was lost by the rules.

import { describe, test } from 'node:test';

import { Queue, Worker } from 'delayd';

import { Proxy } from './proxy.js';
import { Plain, Server, assert, keeper, sleep, until } from './support.js';

const SEED = Number(process.env.DELAYD_SEED ?? Date.now() % 1e9);
console.log(`# DELAYD_SEED=${SEED}`);
/** Each byte of a session where this is 1; some of them take a lease's time each. */
const STRIDE = Number(process.env.DELAYD_CUT_STRIDE ?? 23);
const CUTS_AT_A_TIME = 16;

/** Numbers below 1 that follow from the seed. */
function random(seed) {
  let state = seed >>> 0;
  return () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32);
}

async function withServer(body, ...options) {
  const server = await Server.start(...options);
  try {
    return await body(server);
  } finally {
    await server.end();
  }
}

/** Adds so many jobs, lets a worker do them, and holds the property above. */
async function ledger({ server, url = server.url, queue, jobs, options = {}, during = () => {}, work = () => {}, done = [] }) {
  const producer = new Queue(queue, server.url);
  await producer.addBulk(Array.from({ length: jobs }, (_, at) => ({ body: at, id: `job:${at}`, backoff: '10ms' })));
  const log = keeper();
  const worker = new Worker(queue, async (body, job) => {
    await work(body, job);
    done.push(job.id);
  }, { connection: url, signals: false, logger: log, lease: '2s', concurrency: 2, ...options });
  worker.run().catch(() => {});
  const stats = async () => {
    const plain = await Plain.open(server.port).catch(() => undefined);
    const map = await plain?.map('DELAY.STATS', queue).catch(() => undefined);
    plain?.end();
    return map;
  };
  try {
    await during(worker, stats);
    await until(async () => (await stats())?.acked === jobs, `${jobs} jobs of ${queue}`);
    const told = await worker.close();
    const { delivered, nacked, timeouts, leased, dead } = await stats();
    assert.deepEqual([leased, dead], [0, 0], 'leased, dead');
    // An ACK counts after its lease, too.
    assert(delivered <= jobs + nacked + timeouts, `${delivered} deliveries`);
    assert.equal(new Set(done).size, jobs, 'jobs done');
    assert(done.length - jobs <= timeouts, `${done.length} were done of ${jobs}, and ${timeouts} leases ended`);
    assert(told || timeouts > 0, 'outcomes were given up before their leases ended');
    return { timeouts, counters: worker.counters, log: log.lines };
  } finally {
    await worker.close(0);
    await producer.close();
  }
}

describe('faults', { concurrency: 4 }, () => {
  test('a session that is cut at a byte', () => withServer(async (server) => {
    const fails = (body, job) => {
      if (body === 1 && job.attempt === 1) throw new Error('once');
    };
    const session = async (queue, cut, lease) => {
      const proxy = await Proxy.start(server.port);
      proxy.cut = cut;
      try {
        const { timeouts } = await ledger({ server, url: proxy.url, queue, jobs: 2, work: fails, options: { lease } });
        return { timeouts, carried: proxy.carried, left: proxy.cut };
      } finally {
        proxy.end();
      }
    };
    const whole = await session('whole', undefined, '20s');
    assert.equal(whole.timeouts, 0);
    const cuts = [0, 1].flatMap((connection) => ['up', 'down'].flatMap((way) => {
      const length = whole.carried[connection][way];
      const first = Math.floor(random(SEED + connection)() * STRIDE);
      return Array.from({ length: Math.ceil((length - first) / STRIDE) }, (_, at) => ({ connection, way, after: first + at * STRIDE }));
    }));
    assert(cuts.length > 2_000 / STRIDE, `only ${cuts.length} cuts`);
    let left = 0;
    const one = async () => {
      for (let cut; (cut = cuts.pop()); ) {
        const name = `cut:${cut.connection}:${cut.way}:${cut.after}`;
        // A RESERVE's reply that does not arrive costs the lease; an ACK's does not, as it is said again.
        const { timeouts, left: unused } = await session(name, { ...cut }, cut.connection === 0 ? '600ms' : '20s').catch((error) => {
          throw new Error(`${name}: ${error.message}`, { cause: error });
        });
        if (cut.connection === 1) assert.equal(timeouts, 0, `${name}: leases ended`);
        if (unused) left++;
      }
    };
    const all = cuts.length;
    await Promise.all(Array.from({ length: CUTS_AT_A_TIME }, one));
    assert(left < all / 4, `${left} of ${all} cuts came after the session`);
  }, '--appendonly', 'no'));

  for (const way of ['up', 'down']) {
    test(`outcomes that are stalled ${way} are told over another connection`, () => withServer(async (server) => {
      const proxy = await Proxy.start(server.port);
      const { timeouts } = await ledger({
        server, url: proxy.url, queue: 'a', jobs: 20, options: { lease: '60s' },
        work: (body) => {
          if (body === 5) proxy.stalls = (number, at) => number === 1 && at === way;
        },
      });
      proxy.end();
      assert.equal(timeouts, 0);
    }, '--appendonly', 'no'));
  }

  test('jobs whose reply is stalled come again', () => withServer(async (server) => {
    const proxy = await Proxy.start(server.port);
    const { timeouts } = await ledger({
      server, url: proxy.url, queue: 'a', jobs: 20, options: { lease: '1500ms' },
      work: (body) => {
        if (body === 5) proxy.stalls = (number, at) => number === 0 && at === 'down';
      },
    });
    proxy.end();
    assert(timeouts > 0);
  }, '--appendonly', 'no'));

  test('jobs that arrive after their lease are given back, not begun', () => withServer(async (server) => {
    const proxy = await Proxy.start(server.port);
    const [lease_ms, started] = [2_000, []];
    const { counters } = await ledger({
      server, url: proxy.url, queue: 'a', jobs: 20, options: { lease: lease_ms, concurrency: 1 },
      work: (body, job) => {
        started.push(`${job.id} ${job.attempt}`);
        if (body !== 5 || job.attempt > 1) return;
        // The reply that comes next.
        proxy.late = (number, way) => (number === 0 && way === 'down' ? lease_ms + 300 : 0);
        setTimeout(() => (proxy.late = () => 0), lease_ms / 2);
      },
    });
    proxy.end();
    assert(counters.givenBack > 0, JSON.stringify(counters));
    assert.equal(new Set(started).size, started.length, 'no delivery is begun twice');
  }, '--appendonly', 'no'));

  test('while 1,000 outcomes wait to be told nothing more is taken', () => withServer(async (server) => {
    const proxy = await Proxy.start(server.port);
    const [jobs, concurrency] = [4_000, 100];
    await ledger({
      server, url: proxy.url, queue: 'a', jobs, options: { lease: '60s', concurrency },
      during: async (worker) => {
        await until(() => worker.connectionIds.telling);
        proxy.stalls = (number, way) => number === 1 && way === 'down';
        const before = worker.counters.started;
        // Outcomes that were on their way already count too, so fewer than 1,000 more may be begun.
        let started = before;
        await until(async () => {
          const last = started;
          await sleep(300);
          started = worker.counters.started;
          return started > before && started === last;
        });
        assert(started - before <= 1_000 + 3 * concurrency || proxy.carried.length > 2, `${started - before} were begun`);
      },
    });
    proxy.end();
  }, '--appendonly', 'no'));

  test('200 ms each way', () => withServer(async (server) => {
    const proxy = await Proxy.start(server.port);
    proxy.late = () => 200;
    const { timeouts } = await ledger({ server, url: proxy.url, queue: 'a', jobs: 30, options: { lease: '10s', concurrency: 5 } });
    proxy.end();
    assert.equal(timeouts, 0);
  }, '--appendonly', 'no'));

  test('a server that is killed and started again', () => withServer(async (server) => {
    const next = random(SEED);
    await ledger({
      server, queue: 'a', jobs: 400, options: { concurrency: 8 },
      work: () => sleep(20),
      during: async (worker) => {
        for (let kills = 0; kills < 3; kills++) {
          await until(() => worker.counters.done >= 60 * (kills + 1) && worker.connectionIds.taking);
          await sleep(next() * 100);
          await server.stop('SIGKILL');
          await sleep(next() * 300);
          await server.start();
        }
      },
    });
  }));

  test('CLIENT KILL under load', () => withServer(async (server) => {
    const next = random(SEED);
    const plain = await Plain.open(server.port);
    await ledger({
      server, queue: 'a', jobs: 600, options: { concurrency: 8 },
      work: () => sleep(10),
      during: async (worker) => {
        for (let kills = 0; kills < 12; kills++) {
          await until(() => worker.counters.done >= 40 * kills && worker.connectionIds.taking && worker.connectionIds.telling);
          await sleep(next() * 30);
          const { taking, telling } = worker.connectionIds;
          await plain.call('CLIENT', 'KILL', 'ID', (next() < 0.5 ? taking : telling) ?? 0);
        }
      },
    });
    plain.end();
  }, '--appendonly', 'no'));

  test('what the server cannot do yet is tried again', () => withServer(async (server) => {
    const proxy = await Proxy.start(server.port);
    const refusals = { 'DELAY.RESERVE': ['LOADING', 'READONLY', 'MASTERDOWN', 'MOVED', 'CLUSTERDOWN', 'MISCONF'], 'DELAY.ACK': ['MISCONF', 'OOM', 'READONLY', 'BUSY'] };
    proxy.answers = ([command]) => {
      const code = refusals[command]?.shift();
      return code && `-${code} not now\r\n`;
    };
    const { timeouts } = await ledger({ server, url: proxy.url, queue: 'a', jobs: 3, options: { lease: '60s', concurrency: 1 } });
    proxy.end();
    assert.deepEqual(Object.values(refusals).flat(), []);
    assert(proxy.carried.length >= 7, 'READONLY, MASTERDOWN, MOVED and CLUSTERDOWN ask another node');
    assert.equal(timeouts, 0);
  }, '--appendonly', 'no'));

  test('what the server will never do stops the worker with its words', () => withServer(async (server) => {
    const plain = await Plain.open(server.port);
    await plain.call('ACL', 'SETUSER', 'weak', 'on', '>secret', '~other*', '+@all');
    const stopped = async (url) => {
      const log = keeper();
      const worker = new Worker('a', () => {}, { connection: url, autorun: false, signals: false, logger: log });
      const heard = new Promise((resolve) => worker.once('error', resolve));
      const error = await worker.run().then(() => assert.fail('it runs'), (reason) => reason);
      assert.equal(await heard, error);
      assert.equal(await worker.close(), false);
      assert(log.lines.some((line) => line.includes(error.message)), 'the log has it');
      return error.message;
    };
    assert.match(await stopped(`redis://weak:secret@127.0.0.1:${server.port}`), /^NOPERM/);
    assert.match(await stopped(`redis://weak:wrong@127.0.0.1:${server.port}`), /^WRONGPASS/);
    const proxy = await Proxy.start(server.port);
    proxy.answers = ([command]) => (command === 'INFO' ? '$19\r\nredis_version:7.2.4\r\n' : undefined);
    assert.match(await stopped(proxy.url), /not delayd/);
    proxy.answers = ([command]) => (command === 'DELAY.RESERVE' ? "-ERR unknown command 'DELAY.RESERVE'\r\n" : undefined);
    assert.match(await stopped(proxy.url), /unknown command/);
    proxy.end();
    await plain.call('CONFIG', 'SET', 'requirepass', 'secret');
    assert.match(await stopped(server.url), /^NOAUTH/);
    plain.end();
  }, '--appendonly', 'no'));

  test('a worker waits for its server, and for one that is away longer than a lease its jobs are lost', () => withServer(async (server) => {
    const seen = [];
    const { counters, log } = await ledger({
      server, queue: 'a', jobs: 1, options: { lease: '1s' },
      work: async (body, job) => {
        seen.push(job.attempt);
        if (seen.length > 1) return;
        await server.stop('SIGKILL');
        await new Promise((resolve) => job.signal.addEventListener('abort', resolve));
        assert(job.lost && /is lost/.test(job.signal.reason.message));
        await server.start();
        throw job.signal.reason;
      },
    });
    assert(seen.length > 1 && seen.at(-1) === seen.length, String(seen));
    assert(counters.lost >= 1);
    assert(log.some((line) => line.includes('not connected')));
  }));

  test('a blocked event loop is reported, with the job', () => withServer(async (server) => {
    const block = (ms) => {
      for (const end = performance.now() + ms; performance.now() < end; );
    };
    const { log } = await ledger({ server, queue: 'a', jobs: 1, options: { lease: '1s' }, work: () => block(800) });
    assert(log.some((line) => /blocked for \d+ ms.*job job:0 of queue a/.test(line)), log.join('\n'));
    const later = await ledger({ server, queue: 'b', jobs: 1, options: { lease: '1s' }, work: async () => (await sleep(5), block(800), sleep(300)) });
    assert(later.log.some((line) => /blocked for \d+ ms.*job job:0 of queue b/.test(line)), later.log.join('\n'));
  }, '--appendonly', 'no'));
});
