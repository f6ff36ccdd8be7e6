// ioredis with its defaults: hello 3, lower-case command names, INFO as its ready check.

import { Redis } from 'ioredis';
import { assert, check, finish, host, needs, pairs, port, queue, Server, until } from './lib/harness.mjs';

const connect = (options = {}) => {
  const client = new Redis({ host, port, ...options });
  client.on('error', () => {}); // a lost connection; the client reconnects by itself
  return client;
};

const client = connect();
const call = (...words) => client.call(...words.map(String));

await check('connect with the defaults: the ready check passes', async () => {
  await until(() => client.status === 'ready');
  assert.equal(await client.ping(), 'PONG');
  assert.match(String(await client.info()), /delayd_version:/);
});

await check('a name, a database', async () => {
  const other = connect({ connectionName: 'worker-1', db: 3 });
  const q = queue('io');
  assert.equal(await other.client('GETNAME'), 'worker-1');
  assert.equal(await other.call('DELAY.ADD', q, '1h', 'x', 'ID', 'a'), 'a');
  assert.equal(await client.exists(q), 0);
  assert.equal(await other.exists(q), 1);
  other.disconnect();
});

await check('add, and a taken id', async () => {
  const q = queue('io');
  assert.equal(await call('DELAY.ADD', q, '1h', 'x', 'ID', 'a'), 'a');
  await assert.rejects(call('DELAY.ADD', q, '1h', 'x', 'ID', 'a'), /ReplyError: EXISTS /);
  assert.equal(await call('DELAY.ADD', q, '1h', 'x', 'ID', 'a', 'NX'), null);
  assert.equal(await call('DELAY.CANCEL', q, 'a'), 'delayed');
});

await check('a blocking pop on a connection of its own, never early', async () => {
  const q = queue('io');
  const waiter = client.duplicate();
  const due = Date.now() + 150;
  const popped = waiter.call('DELAY.POP', q, '5');
  await call('DELAY.ADD', q, `@${due}`, 'x', 'ID', 'a');
  assert.deepEqual(await popped, [q, 'a', 'x']);
  assert(Date.now() >= due, `${due - Date.now()} ms early`);
  assert.equal(await waiter.call('DELAY.POP', q, '0.1'), null);
  waiter.disconnect();
});

await check('who gives up waiting and keeps the connection loses what POP hands over, not what RESERVE does', async () => {
  const [popped, leased] = [queue('io'), queue('io')];
  const state = async (q) => pairs(await call('DELAY.STATS', q));
  for (const [q, command] of [[popped, ['DELAY.POP', popped, '5']], [leased, ['DELAY.RESERVE', '5', '1', leased, 'LEASE', '200ms']]]) {
    const hasty = connect({ commandTimeout: 100 });
    // The time-out counts from the call, connected or not.
    await until(() => hasty.status === 'ready');
    await assert.rejects(hasty.call(...command), /Command timed out/);
    await until(async () => (await state(q)).waiters === 1);
    await call('DELAY.ADD', q, '0', 'x');
    await until(async () => (await state(q)).waiters === 0);
    hasty.disconnect();
  }
  assert.equal((await state(popped)).popped, 1);
  const [[, , body, , attempt]] = await call('DELAY.RESERVE', '5', '1', leased);
  assert.deepEqual([body, attempt], ['x', 2]);
});

await check('reserve, extend, acknowledge: the token is text', async () => {
  const q = queue('io');
  await call('DELAY.ADD', q, '0', 'x', 'ID', 'a');
  const [[name, id, body, token, attempt, due, end]] = await call('DELAY.RESERVE', '1', '1', q, 'LEASE', '5s');
  assert.deepEqual([name, id, body, attempt], [q, 'a', 'x', 1]);
  assert.equal(typeof token, 'string');
  assert(due <= Date.now() && end > Date.now());
  assert((await call('DELAY.EXTEND', q, id, token, '1m')) > end);
  assert.equal(pairs(await call('DELAY.GET', q, id)).state, 'leased');
  assert.equal(await call('DELAY.ACK', q, id, token), 1);
  assert.equal(await call('DELAY.ACK', q, id, token), 0);
});

await check('nack, dead letter', async () => {
  const q = queue('io');
  await call('DELAY.ADD', q, '0', 'x', 'ID', 'a', 'ATTEMPTS', '2', 'BACKOFF', '50ms');
  for (const attempt of [1, 2]) {
    const [job] = await call('DELAY.RESERVE', '2', '1', q);
    assert.equal(job[4], attempt);
    assert.equal(await call('DELAY.NACK', q, 'a', job[3], 'ERROR', 'no route'), 1);
  }
  assert.equal(pairs(await call('DELAY.GET', q, 'a')).reason, 'attempts');
});

await check('redrive', async () => {
  await needs('DELAY.REDRIVE');
  const q = queue('io');
  await call('DELAY.ADD', q, '0', 'x', 'ID', 'a');
  const [job] = await call('DELAY.RESERVE', '1', '1', q);
  assert.equal(await call('DELAY.NACK', q, 'a', job[3], 'BURY'), 1);
  assert.equal(await call('DELAY.REDRIVE', q), 1);
  assert.equal((await call('DELAY.POP', q, '1'))[1], 'a');
});

await check('pipeline', async () => {
  const q = queue('io');
  const pipeline = client.pipeline();
  for (let n = 0; n < 100; n++) pipeline.call('DELAY.ADD', q, '0', String(n), 'ID', String(n));
  pipeline.call('DELAY.ADD', q, '0', 'again', 'ID', '0');
  pipeline.call('DELAY.LEN', q);
  const replies = await pipeline.exec();
  assert.deepEqual(replies[99], [null, '99']);
  assert.match(replies[100][0].message, /^EXISTS /);
  assert.deepEqual(replies[101], [null, 100]);
});

await check('multi: nothing blocks inside', async () => {
  const q = queue('io');
  const started = performance.now();
  const replies = await client
    .multi()
    .call('DELAY.ADD', q, '0', 'x', 'ID', 'a')
    .call('DELAY.POP', q, '5')
    .call('DELAY.POP', q, '5')
    .exec();
  assert.deepEqual(replies, [[null, 'a'], [null, [q, 'a', 'x']], [null, null]]);
  assert(performance.now() - started < 1000);
});

await check('the list face through the client\'s own methods', async () => {
  const q = queue('io');
  await needs('RPUSH', 'LRANGE', 'BLPOP', 'LPOP');
  assert.equal(await client.rpush(q, 'a', 'b'), 2);
  assert.deepEqual(await client.lrange(q, 0, -1), ['a', 'b']);
  assert.equal(await client.type(q), 'list');
  assert.deepEqual(await client.blpop(q, 1), [q, 'a']);
  assert.equal(await client.lpop(q), 'b');
});

await check('binary bodies', async () => {
  const q = queue('io');
  const body = Buffer.from([0, 255, 13, 10]);
  await client.call('DELAY.ADD', q, '0', body);
  assert.deepEqual((await client.callBuffer('DELAY.POP', q, '1'))[2], body);
});

await check('a killed connection comes back by itself', async () => {
  const victim = connect();
  const before = await victim.client('ID');
  await client.client('KILL', 'ID', String(before));
  await until(async () => (await victim.client('ID')) !== before);
  assert.equal(await victim.ping(), 'PONG');
  victim.disconnect();
});

await check('the client comes back after a restart of the server', async () => {
  const server = await Server.start();
  const mine = connect({ host: '127.0.0.1', port: server.port, retryStrategy: () => 20 });
  try {
    assert.equal(await mine.ping(), 'PONG');
    await server.stop();
    await until(() => mine.status !== 'ready');
    await server.start();
    assert.equal(await mine.ping(), 'PONG'); // queued while offline
    await mine.call('DELAY.ADD', 'q', '50ms', 'x', 'ID', 'a');
    assert.equal((await mine.call('DELAY.POP', 'q', '2'))[1], 'a');
  } finally {
    mine.disconnect();
    await server.end();
  }
});

await check('publish and subscribe', async () => {
  await needs('SUBSCRIBE', 'PUBLISH');
  const subscriber = connect();
  const got = [];
  const channel = queue('news');
  subscriber.on('message', (_, message) => got.push(message));
  await subscriber.subscribe(channel);
  assert.equal(await client.publish(channel, 'hello'), 1);
  await until(() => got.length === 1);
  assert.deepEqual(got, ['hello']);
  subscriber.disconnect();
});

finish();
