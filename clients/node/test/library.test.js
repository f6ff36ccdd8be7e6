// What a program that adds jobs and looks at them sees, and what mistakes are answered with.

import { after, before, test } from 'node:test';

import { Bury, DelaydError, Discard, Queue, Retry, Snooze, Worker, bytes } from 'delayd';
import { runInline } from 'delayd/testing';

import { Proxy } from './proxy.js';
import { Plain, Server, assert, keeper, sleep, until } from './support.js';

let server, plain;
before(async () => {
  server = await Server.start('--appendonly', 'no');
  plain = await Plain.open(server.port);
});
after(async () => {
  plain.end();
  await server.end();
});

let queues = 0;
/** A queue that no other test uses. */
const queue = (options = {}) => new Queue(`q${++queues}`, { connection: server.url, ...options });
const given = async (q, id) => plain.map('DELAY.GET', q.name, id);

test('options of add are those of the server', async () => {
  const q = queue({ defaultJobOptions: { attempts: 3 } });
  const id = await q.add({ to: 'ada' }, { delay: '1h30m', id: 'a', priority: 0, backoff: '1s,5s', ttl: '1d', lease: '2m', unique: '1h' });
  assert.equal(id, 'a');
  const job = await given(q, 'a');
  const want = { state: 'delayed', body: '{"to":"ada"}', priority: 0, 'max-attempts': 3, backoff: '1s,5s', 'lease-ms': 120_000, 'ttl-ms': 86_400_000, 'unique-ms': 3_600_000 };
  for (const [name, value] of Object.entries(want)) assert.equal(job[name], value, name);
  assert(job.due - job.added >= 5_400_000 && job.due - job.added <= 5_400_001);
  const due = new Date(Date.now() + 3_600_000);
  await q.add(1, { delay: due, jobId: 'date' });
  assert.equal((await given(q, 'date')).due, due.getTime());
  await q.add(1, { delay: '2033-05-18T05:33:20+02:00', id: 'text' });
  assert.equal((await given(q, 'text')).due, 2_000_000_000_000);
  for (const [backoff, text] of [[1500, '1500ms'], [['1s', 2000], '1s,2s'], [{ type: 'fixed', delay: 5000 }, '5s'], [{ type: 'exponential', delay: '1s', jitter: 0.2 }, 'exp:1s:1h~']]) {
    await q.add(1, { id: 'b', replace: true, backoff });
    const shown = (await given(q, 'b')).backoff;
    assert.equal(await plain.call('DELAY.ADD', q.name, 0, '', 'ID', 'c', 'REPLACE', 'BACKOFF', text), 'c');
    assert.equal(shown, (await given(q, 'c')).backoff);
  }
  await q.close();
});

test('an id is taken once', async () => {
  const q = queue();
  await q.add(1, { id: 'a' });
  await assert.rejects(q.add(2, { id: 'a' }), (error) => error instanceof DelaydError && error.code === 'EXISTS');
  assert.equal(await q.add(2, { id: 'a', nx: true }), null);
  assert.equal(await q.add(3, { id: 'a', replace: true }), 'a');
  assert.equal((await q.get('a')).body, 3);
  assert.match(await q.add(4), /./);
  await q.add(5, { id: 'b', delay: '2s', latest: true, maxDelay: '30s' });
  const { added } = await given(q, 'b');
  await q.add(6, { id: 'b', delay: 30_000, latest: true, maxDelay: '30s' });
  const later = await given(q, 'b');
  assert.deepEqual([later.added, later.due], [added, added + 30_000]);
  await q.close();
});

test('looking and changing', async () => {
  const q = queue();
  assert.deepEqual([await q.get('a'), await q.stats(), await q.cancel('a')], [null, null, null]);
  await q.add({ n: 1 }, { id: 'a', delay: '1h' });
  const job = await q.get('a');
  assert.deepEqual([job.state, job.body, job.maxAttempts, job.leaseMs], ['delayed', { n: 1 }, 20, 0]);
  assert.equal(await q.reschedule('a', '30m', { gt: true }), false);
  assert.equal(await q.reschedule('a', '2h', { gt: true }), true);
  assert.equal((await q.stats()).delayed, 1);
  assert.equal(await q.cancel('a'), 'delayed');
  await q.add('not json', { id: 'b' });
  await plain.call('DELAY.RESERVE', 'NOWAIT', 1, q.name);
  assert.equal(await q.cancel('b'), 'leased');
  assert.equal(await q.cancel('b', { force: true }), 'leased');
  await plain.call('DELAY.ADD', q.name, 0, '{', 'ID', 'raw');
  assert.deepEqual((await q.get('raw')).body, Buffer.from('{'));
  for (const id of ['d1', 'd2', 'd3']) {
    await q.add(1, { id, priority: 0 });
    const [[, , , token]] = await plain.call('DELAY.RESERVE', 'NOWAIT', 1, q.name);
    await plain.call('DELAY.NACK', q.name, id, token, 'BURY');
  }
  assert.equal(await q.redrive({ ids: ['d2'], in: '1h', keepAttempts: true }), 1);
  assert.equal(await q.redrive({ count: 1 }), 1);
  assert.equal(await q.purge('dead'), 1);
  assert.equal(await q.purge(), 3);
  await q.pause({ adding: true, for: '1h' });
  await assert.rejects(q.add(1), { code: 'PAUSED' });
  await q.resume();
  await q.pause();
  assert.equal(await plain.call('DELAY.RESERVE', 'NOWAIT', 1, q.name), null);
  assert.equal(await q.call('DELAY.LEN', q.name), 0);
  await q.close();
});

test('many jobs at once, in one transaction or not', async () => {
  const q = queue();
  const ids = await q.addBulk([{ body: 1, id: 'a' }, { body: { n: 2 }, id: 'b', delay: '1h' }, { body: Buffer.from([255, 0]), id: 'c' }], { atomic: true });
  assert.deepEqual(ids, ['a', 'b', 'c']);
  assert.deepEqual([(await q.get('b')).body, (await q.get('c')).body], [{ n: 2 }, Buffer.from([255, 0])]);
  await plain.call('CONFIG', 'SET', 'maxmemory', 1);
  await assert.rejects(q.addBulk([{ body: 1, id: 'd' }, { body: 1 }], { atomic: true }), { code: 'OOM' });
  await plain.call('CONFIG', 'SET', 'maxmemory', 0);
  assert.equal(await q.get('d'), null);
  await assert.rejects(q.addBulk([{ body: 1, id: 'e' }, { body: 1, id: 'a' }], { atomic: true }), (error) => error instanceof AggregateError && error.errors[0].code === 'EXISTS');
  const many = await q.addBulk(Array.from({ length: 2_500 }, (_, at) => ({ body: at, id: `m${at}` })));
  assert.deepEqual([many.length, many[2_499]], [2_500, 'm2499']);
  await assert.rejects(q.addBulk([{ body: 1, id: 'f' }, { body: 1, id: 'a' }]), /1 of 2 jobs were not added: EXISTS/);
  assert.notEqual(await q.get('f'), null);
  assert.deepEqual(await q.addBulk([]), []);
  await q.close();
});

test('schedules', async () => {
  const q = queue();
  const daily = { cron: '0 8 * * 1-5', tz: 'Europe/Berlin', body: { a: 1 }, overlap: 'skip', attempts: 3, until: new Date('2100-01-01') };
  const { result, next } = await q.schedule('daily', daily);
  assert.equal(result, 'created');
  assert(next > new Date());
  assert.equal((await q.schedule('daily', daily)).result, 'same');
  assert.equal((await q.schedule('daily', { every: '1h' })).result, 'changed');
  assert.deepEqual(await q.schedules(), ['daily']);
  assert.deepEqual([await q.unschedule('daily'), await q.unschedule('daily'), await q.schedules()], [true, false, []]);
  await assert.rejects(q.schedule('never', { cron: '0 0 30 2 *' }), /never occurs/);
  await q.close();
});

test('a mistake is a TypeError that names it', async () => {
  const q = queue();
  const add = (...args) => q.add(...args);
  for (const [call, words] of [
    [() => add('name', {}, {}), /jobs have no names/],
    [() => add(1, { delay: 'soon' }), /delay: 'soon'/],
    [() => add(1, { delay: '2030-01-31T08:00:00' }), /zone/],
    [() => add(1, { delay: -1 }), /delay: -1/],
    [() => add(1, { delay: new Date('x') }), /delay/],
    [() => add(1, { removeOnComplete: true }), /removeOnComplete.*gone/],
    [() => add(1, { colour: 1 }), /colour.*delay/],
    [() => add(1, { backoff: { type: 'custom' } }), /custom/],
    [() => q.addBulk([{ data: 1 }]), /`body`/],
    [() => q.reschedule('a'), /reschedule: undefined/],
    [async () => new Worker([], () => {}), /queue/],
    [async () => new Worker('a'), /handler/],
    [async () => new Worker('a', () => {}, { concurrency: 0 }), /concurrency is 0/],
    [async () => new Worker('a', () => {}, { lease: '1ms' }), /lease is 1ms.*100ms/],
    [async () => new Worker('a', () => {}, { lockDuration: 1 }), /lockDuration.*lease/],
    [async () => new Worker('a', () => {}, { autorun: false, signals: false }).every('5m', 'x', { queue: 'b' }), /'b'/],
    [async () => new Retry('later'), /later/],
  ]) await assert.rejects(call, (error) => error instanceof TypeError && words.test(error.message), String(call));
  assert.equal(await plain.map('DELAY.STATS', q.name), null, 'nothing was changed');
  await q.close();
});

test('an add with an id that is cut off is repeated, one without is not', async () => {
  const proxy = await Proxy.start(server.port);
  const q = queue({ connection: proxy.url });
  await q.add(1, { id: 'first' });
  const { down } = proxy.carried[0];
  // The reply is lost.
  proxy.cut = { connection: 0, way: 'down', after: down };
  assert.equal(await q.add(2, { id: 'cut', delay: '1h' }), 'cut');
  assert.equal(proxy.cut, undefined);
  const job = await q.get('cut');
  assert(job.due - job.added <= 3_600_001);
  proxy.cut = { connection: 1, way: 'down', after: proxy.carried[1].down };
  await assert.rejects(q.add(3), { code: 'CONNECTION' });
  assert.equal((await q.stats()).added, 3);
  await q.close();
  await assert.rejects(q.add(4), { code: 'CONNECTION' });
  proxy.end();
});

test('a producer waits some seconds for its server, and no longer', async () => {
  const gone = await Server.start('--appendonly', 'no');
  const q = new Queue('q', gone.url);
  await gone.stop();
  const added = q.add(1, { id: 'a' });
  await sleep(300);
  await gone.start();
  assert.equal(await added, 'a');
  await gone.end();
  await assert.rejects(q.add(1), { code: 'CONNECTION' });
  await q.close();
});

test('clients and their options are taken over', async () => {
  const { port } = server;
  const connections = [new URL(server.url), { host: '127.0.0.1', port }, await aClient()];
  for (const connection of connections) {
    const q = queue({ connection });
    await q.add(1, { id: 'a' });
    const worker = new Worker(q.name, () => {}, { connection, signals: false, logger: null });
    await until(async () => (await q.stats()).acked === 1);
    const list = await plain.call('CLIENT', 'LIST');
    assert.match(list, /name=worker:\S+:\d+ .*lib-name=delayd-node/);
    await worker.close();
    await q.close();
  }
  const q = new Queue('q', await aClient());
  assert.equal(await q.add(1, { id: 'direct' }), 'direct');
  await q.close();

  async function aClient() {
    const { Redis } = await import('ioredis').catch(() => ({}));
    if (Redis) return new Redis({ host: '127.0.0.1', port, lazyConnect: true });
    const { createClient } = await import('redis');
    return createClient({ url: server.url });
  }
});

test('bytes stay bytes, ids and queues too', async () => {
  const [name, id, body] = [Buffer.from([255, 1]), Buffer.from([254, 2]), Buffer.from([0, 253, 13, 10])];
  const q = new Queue('any', { connection: server.url });
  await q.call('DELAY.ADD', name, '0', body, 'ID', id);
  const seen = [];
  const worker = new Worker([name], (raw) => void seen.push(raw), { connection: server.url, signals: false, codec: bytes, logger: keeper() });
  await until(async () => (await q.call('DELAY.LEN', name)) === 0);
  assert.deepEqual([seen, await worker.close()], [[body], true]);
  assert.equal(worker.counters.lost, 0);
  await q.close();
});

test('a job of a group says so', async () => {
  const q = queue();
  await q.add(1, { id: 'a', group: 'äcme' });
  await q.add(1, { id: 'b' });
  await q.add(1, { id: 'c', group: Buffer.from([255]) });
  assert.deepEqual([(await q.get('a')).group, 'group' in (await q.get('b'))], ['äcme', false]);
  await q.schedule('s', { every: '1h', group: 'acme' });
  await q.call('DELAY.SCHEDULE', 'RUN', q.name, 's');
  const seen = new Map();
  const worker = new Worker(q.name, (body, job) => void seen.set(job.id[0], job.group), { connection: server.url, signals: false });
  await until(async () => (await q.stats()).acked === 4);
  assert.deepEqual([[...seen].sort(), await worker.close()], [[['a', 'äcme'], ['b', null], ['c', Buffer.from([255])], ['s', 'acme']], true]);
  await q.add(1, { group: 'äcme', delay: '1h' });
  assert.deepEqual([(await q.stats({ group: 'äcme' })).delayed, await q.stats({ group: 'none' })], [1, null]);
  assert.deepEqual([await q.redrive({ group: 'äcme', count: 5 }), await q.purge('delayed', { group: 'äcme' })], [0, 1]);
  await assert.rejects(q.add(1, { group: '' }), /group '' has 0 bytes/);
  assert.equal((await runInline((body, job) => job.group, 1, { group: 'acme' })).result, 'acme');
  await q.close();
});

test('headers go with a job, and with each of a schedule', async () => {
  const q = queue();
  const meta = { tenant: 'äcme', 'content-type': '', raw: Buffer.from([255, 0]) };
  await q.add(1, { id: 'a', meta });
  await q.add(1, { id: 'b', meta: {} });
  assert.deepEqual([(await q.get('a')).meta, 'meta' in (await q.get('b'))], [meta, false]);
  await q.schedule('s', { every: '1h', meta });
  await q.call('DELAY.SCHEDULE', 'RUN', q.name, 's');
  const seen = [];
  const worker = new Worker(q.name, (body, job) => void seen.push(job.meta), { connection: server.url, signals: false });
  await until(async () => (await q.stats()).acked === 3);
  assert.deepEqual([seen, await worker.close()], [[meta, {}, meta], true]);
  for (const wrong of [{ a: 1 }, { a: null }, 'a', 7, ['a'], new Map([['a', 'b']]), new Date()]) await assert.rejects(q.add(1, { meta: wrong }), TypeError, String(wrong));
  await assert.rejects(q.add(1, { meta: { '': 'x' } }), /META name has 0 bytes/);
  await q.call('DELAY.ADD', q.name, '0', '1', 'ID', 'odd', 'META', 4, '__proto__', 'x', Buffer.from([255]), '\ufffd', Buffer.from([254]), 'b', 'c', '\ufeffd');
  const odd = (await q.get('odd')).meta;
  assert.deepEqual(Object.entries(odd), [['__proto__', 'x'], ['ÿ', '\ufffd'], ['þ', 'b'], ['c', '\ufeffd']]);
  assert.deepEqual((await runInline((body, job) => job.meta, 1, { meta: { tenant: 'acme' } })).result, { tenant: 'acme' });
  await q.close();
});

test('events, and a listener that throws changes nothing', async () => {
  const q = queue();
  const log = keeper();
  const worker = new Worker(q.name, (body) => {
    if (body === 2) throw new TypeError('no');
    return body;
  }, { connection: server.url, signals: false, logger: log });
  const seen = [];
  for (const event of ['ready', 'active', 'completed', 'failed', 'closing', 'closed']) worker.on(event, (job, what) => seen.push([event, job?.id, String(what)]));
  worker.on('completed', () => {
    throw new Error('mine');
  });
  await q.addBulk([{ body: 1, id: 'a' }, { body: 2, id: 'b', attempts: 1 }]);
  await until(async () => (await q.stats()).dead === 1);
  await worker.close();
  assert.deepEqual(seen, [['ready', undefined, 'undefined'], ['active', 'a', 'undefined'], ['completed', 'a', '1'], ['active', 'b', 'undefined'], ['failed', 'b', 'TypeError: no'], ['closing', undefined, 'undefined'], ['closed', undefined, 'undefined']]);
  assert.match(log.lines.join(), /a listener of 'completed' threw/);
  const job = await q.get('b');
  assert.match(job.error, /^TypeError: no\n +at .*library\.test\.js/);
  assert.deepEqual(job.errors, [{ error: job.error, at: job.errors[0].at, attempt: 1 }]);
  assert(job.errors[0].at >= job.due);
  assert.equal(log.lines.filter((line) => line.includes('failed at attempt')).length, 1, 'one line for a failure, none for what is done');
  await q.close();
});

test('a blocked loop is no silent server', async () => {
  const q = queue();
  const log = keeper();
  await q.addBulk([{ body: 0, id: 'a' }, { body: 1, id: 'b' }]);
  const worker = new Worker(q.name, async (body) => {
    if (body === 0) return;
    // Now the other job's ACK has just been sent. Its reply is there long before it is read.
    for (let turns = 0; turns < 2; turns++) await new Promise((resolve) => setImmediate(resolve));
    for (const end = performance.now() + 5_500; performance.now() < end; );
  }, { connection: server.url, signals: false, concurrency: 2, logger: log });
  await until(async () => (await q.stats()).acked === 2);
  await worker.close();
  assert.deepEqual(log.lines, []);
  assert.equal((await q.stats()).timeouts, 0);
  await q.close();
});

test('no more handlers run than there are places, whenever they end', async () => {
  const q = queue();
  let [running, most] = [0, 0];
  const worker = new Worker(q.name, async (body) => {
    most = Math.max(most, ++running);
    await sleep((body * 7) % 23);
    running--;
  }, { connection: server.url, signals: false, concurrency: 3, logger: keeper() });
  await q.addBulk(Array.from({ length: 100 }, (_, at) => ({ body: at })));
  await until(async () => (await q.stats()).acked === 100);
  assert.deepEqual([most, await worker.close()], [3, true]);
  await q.close();
});

test('a handler is tested without a server', async () => {
  const after = (error) => async () => {
    throw error;
  };
  assert.deepEqual(await runInline(async (body, job) => [body, job.attempt, job.id], { a: [1] }, { id: 'x', attempt: 2 }), { outcome: 'done', result: [{ a: [1] }, 2, 'x'] });
  assert.equal((await runInline(after(new Discard()))).outcome, 'done');
  assert.equal((await runInline(after(new Bury('b')))).outcome, 'buried');
  assert.equal((await runInline(after(new Error('e')))).outcome, 'failed');
  assert.equal((await runInline(after(new Retry('5m')))).after, '300000ms');
  assert.equal((await runInline(after(new Snooze('1s')))).outcome, 'snoozed');
  assert.equal((await runInline(() => {}, Buffer.from('{'))).outcome, 'buried');
});

test('a worker that is closed before it runs, or twice, is closed', async () => {
  const worker = new Worker('q', () => {}, { connection: server.url, autorun: false, signals: false });
  assert.equal(await worker.close(), true);
  await worker.run();
  assert.equal(await worker.close('1s'), true);
});

test('whatever a handler throws is a failure', async () => {
  const q = queue();
  const sly = new Error('sly');
  Object.defineProperty(sly, 'stack', { get: () => { throw new Error('no stack'); } });
  const odd = Object.assign(new Error('odd'), { stack: { a: 1 } });
  const thrown = [Object.assign(Object.create(null), { a: 1 }), Symbol('x'), sly, odd, undefined, null, 7];
  for (const at of thrown.keys()) await q.add(at, { id: `t${at}`, attempts: 1 });
  const log = keeper();
  const worker = new Worker(q.name, async (at) => { throw thrown[at]; }, { connection: server.url, signals: false, logger: log });
  await until(async () => (await q.stats())?.dead === thrown.length, 'the failures');
  assert(await worker.close());
  assert.equal((await q.get('t1')).error, 'Symbol(x)');
  await q.close();
});

test('a body that is none is refused before it is sent, and keeps no other from being added', async () => {
  const q = queue();
  const adding = [q.add(1), q.add(() => 1), q.add(undefined), q.add(Symbol('x')), q.add(2)];
  const results = await Promise.allSettled(adding);
  assert.deepEqual(results.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled']);
  for (const at of [1, 3]) assert(results[at].reason instanceof TypeError, String(results[at].reason));
  assert.equal((await q.stats()).added, 3);
  await q.close();
});

test('an option that is null is not given', async () => {
  const q = queue();
  const ids = [await q.add(1, { id: null, attempts: null }), await q.add(1, { id: null })];
  assert(!ids.includes('null'));
  await q.close();
});
