// Runs the scenarios of clients/conformance; their format: clients/conformance/README.md.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { Bury, Discard, Queue, Retry, Snooze, Worker } from 'delayd';

import { Plains, Server, assert, keeper, sleep } from './support.js';

const FOLDER = process.env.DELAYD_CONFORMANCE;
const PATIENCE_MS = 20_000;
const LOOK_MS = 10;
const MODES = new Set(['node']);
const FIELDS = new Set(['name', 'rules', 'only', 'setup', 'jobs', 'handlers', 'workers', 'steps', 'expect']);
const WORKER = { concurrency: 1, lease: '5s', grace: '5s', timeout: undefined, rotate: false, app: 'app', sync: false };
const known = (object, names, what) => Object.keys(object).forEach((name) => assert(names.has(name), `${what}: unknown field ${name}`));

class Run {
  started = {};
  order = [];
  running = 0;
  mostAtOnce = 0;
  leasedMost = {};
  lost = [];
  bodies = {};
  meta = {};
  groups = {};
  exit = {};
  endedWithin = {};
  workers = [];

  constructor(scenario, server, plain) {
    [this.scenario, this.server, this.plain] = [scenario, server, plain];
  }

  /** What a handler does at its n-th start. */
  async handle(key, body, job) {
    const behaviours = this.scenario.handlers[job.queue];
    const list = behaviours[key] ?? behaviours['*'];
    this.started[key] = (this.started[key] ?? 0) + 1;
    this.order.push(key);
    this.bodies[key] = body;
    this.meta[key] = job.meta;
    this.groups[key] = job.group;
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.running);
    try {
      for (const [action, value] of list[Math.min(this.started[key], list.length) - 1]) await this.act(action, value, job, key);
    } finally {
      this.running--;
      if (job.lost) this.lost.push(key);
    }
  }

  async act(action, value, job) {
    if (action === 'wait') return sleep(value, undefined, { signal: job.signal });
    if (action === 'block') {
      for (const end = performance.now() + value; performance.now() < end; );
      return undefined;
    }
    if (action === 'until_lost') {
      await sleep(10_000, undefined, { signal: job.signal }).catch(() => {});
      assert(job.lost, 'not lost');
      return undefined;
    }
    if (action === 'throw') throw new Error(value);
    if (action === 'retry') throw new Retry(value);
    if (action === 'snooze') throw new Snooze(value);
    if (action === 'bury') throw new Bury(value);
    if (action === 'discard') throw new Discard();
    throw new Error(`unknown action ${action}`);
  }

  async addJobs() {
    for (const { queue, id, body, text, ...options } of this.scenario.jobs) {
      known(options, new Set(['delay', 'attempts', 'backoff', 'priority', 'lease', 'ttl', 'group', 'meta']), 'job');
      const producer = new Queue(queue, this.server.url);
      await producer.add(text === undefined ? body : Buffer.from(text), { id, ...options });
      await producer.close();
    }
  }

  makeWorkers() {
    for (const { queues, schedules = [], ...options } of this.scenario.workers) {
      known(options, new Set(Object.keys(WORKER)), 'worker');
      const handler = (body, job) => this.handle(job.schedule ?? job.id, body, job);
      const worker = new Worker(queues, handler, {
        ...WORKER, ...options, connection: this.server.url, autorun: false, signals: false, logger: keeper(),
      });
      for (const { function: name, queue, every, cron, ...rest } of schedules) {
        if (every) worker.every(every, name, { queue, ...rest });
        else worker.cron(cron, name, { queue, ...rest });
      }
      this.workers.push(worker);
    }
  }

  start(numbers) {
    return Promise.all(numbers.map((at) => new Promise((resolve) => {
      this.workers[at].once('ready', resolve);
      this.workers[at].run().catch(() => {});
    })));
  }

  async stop(at, twice = false) {
    const began = performance.now();
    const closed = this.workers[at].close();
    if (twice) this.workers[at].close(0);
    this.exit[at] = (await closed) ? 0 : 1;
    this.endedWithin[at] ??= performance.now() - began;
  }

  async step(step) {
    const [[name, value]] = Object.entries(step);
    if (name === 'start') return this.start(value);
    if (name === 'wait') return this.wait(value);
    if (name === 'stop' || name === 'stop_now') return Promise.all(value.map((at) => this.stop(at, name === 'stop_now')));
    if (name === 'hold_ms') return this.hold(value);
    assert.equal(name, 'command', `unknown step ${name}`);
    const at = value.findIndex((word) => typeof word !== 'string');
    if (at < 0) return this.plain.call(value);
    // One of a worker's connections: those to the partition of its first queue.
    const [[which, number]] = Object.entries(value[at]);
    const { taking, telling } = this.workers[number].connectionIds;
    const plain = await this.plain.of(this.scenario.workers[number].queues[0]);
    return plain.call(value.with(at, String(which === 'worker' ? taking : telling)));
  }

  async hold(ms) {
    for (const end = performance.now() + ms; performance.now() < end; await sleep(LOOK_MS)) await this.look();
  }

  /** Queues whose leases are counted. */
  async look() {
    for (const queue of Object.keys(this.scenario.expect.leased_most ?? {})) {
      const { leased } = (await this.plain.map('DELAY.STATS', queue)) ?? { leased: 0 };
      this.leasedMost[queue] = Math.max(this.leasedMost[queue] ?? 0, leased);
    }
  }

  async wait(expected) {
    for (const end = performance.now() + PATIENCE_MS; ; await sleep(LOOK_MS)) {
      await this.look();
      try {
        return await this.check(expected);
      } catch (error) {
        if (performance.now() > end) throw error;
      }
    }
  }

  async check(expected) {
    for (const [field, value] of Object.entries(expected)) await this.checkField(field, value);
  }

  async checkField(field, value) {
    const each = async (check) => {
      for (const [key, inner] of Object.entries(value)) await check(key, inner);
    };
    const some = (have, want, what) => {
      for (const [name, one] of Object.entries(want)) assert(matches(have?.[name], one), `${what} ${name}: ${JSON.stringify(have?.[name])}, not ${JSON.stringify(one)}`);
    };
    const checks = {
      stats: () => each(async (queue, want) => some(await this.plain.map('DELAY.STATS', queue), want, `stats of ${queue}`)),
      jobs: () => each((queue, jobs) => this.checkJobs(queue, jobs, some)),
      started: () => each((id, count) => assert.equal(this.started[id], count, `started ${id}`)),
      started_least: () => each((id, count) => assert((this.started[id] ?? 0) >= count, `started ${id}: ${this.started[id]}`)),
      order: () => assert.deepEqual(this.order, value),
      most_at_once: () => assert.equal(this.mostAtOnce, value),
      leased_most: () => each((queue, most) => assert(this.leasedMost[queue] <= most, `leased of ${queue}: ${this.leasedMost[queue]}`)),
      lost: () => assert.deepEqual(this.lost.toSorted(), value),
      counters: () => each((at, want) => some(asRules(this.workers[at].counters), want, `counters of ${at}`)),
      meta: () => each((id, meta) => assert.deepEqual(this.meta[id], meta)),
      group: () => each((id, group) => assert.equal(this.groups[id], group)),
      bodies: () => each((id, body) => assert.deepEqual(this.bodies[id], body)),
      schedules: () => each(async (queue, names) => assert.deepEqual((await this.plain.call('DELAY.SCHEDULE', 'LIST', queue)).map(([name]) => name).sort(), names)),
      exit: () => each((at, status) => assert.equal(this.exit[at], status, `exit of ${at}`)),
      ended_within_ms: () => each((at, ms) => assert(this.endedWithin[at] <= ms, `${at} ended after ${this.endedWithin[at]} ms`)),
    };
    assert(checks[field], `unknown expectation ${field}`);
    await checks[field]();
  }

  async checkJobs(queue, jobs, some) {
    for (const [id, want] of Object.entries(jobs)) {
      const job = await this.plain.map('DELAY.GET', queue, id);
      if (want === null) assert.equal(job, null, `job ${id} is there`);
      else some(job, want, `job ${id}`);
    }
  }
}

const asRules = ({ givenBack, ...counters }) => ({ ...counters, given_back: givenBack });

/** Texts match when they begin with what is wanted, or contain what follows `~`. */
function matches(have, want) {
  if (isDeepStrictEqual(have, want)) return true;
  if (typeof have !== 'string' || typeof want !== 'string') return false;
  return want.startsWith('~') ? have.includes(want.slice(1)) : have.startsWith(want);
}

async function play(scenario, partitions) {
  known(scenario, FIELDS, 'scenario');
  const server = await Server.spread(partitions, '--appendonly', 'no');
  const plain = await Plains.open(server);
  const run = new Run(scenario, server, plain);
  try {
    for (const command of scenario.setup ?? []) await plain.call(command);
    await run.addJobs();
    run.makeWorkers();
    if (!scenario.steps.some((step) => step.start)) await run.start(run.workers.keys().toArray?.() ?? [...run.workers.keys()]);
    for (const step of scenario.steps) await run.step(step);
    await Promise.all(run.workers.map((_, at) => run.exit[at] ?? run.stop(at)));
    await run.look();
    await run.check(scenario.expect);
  } finally {
    await Promise.all(run.workers.map((worker) => worker.close(0)));
    plain.end();
    await server.end();
  }
}

for (const partitions of [1, 4]) describe(`conformance, ${partitions} partitions`, { concurrency: 6 }, () => {
  for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.json')).sort()) {
    for (const scenario of JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))) {
      const here = !scenario.only || scenario.only.some((mode) => MODES.has(mode));
      test(`${file}: ${scenario.name}`, { skip: !here && 'not for Node' }, () => play(scenario, partitions));
    }
  }
});
