// node-redis with its defaults: HELLO 3 first, RESP3 from then on.

import { createClient, RESP_TYPES } from 'redis';
import { assert, check, finish, host, needs, pairs, port, queue, Server, until } from './lib/harness.mjs';

const connect = async (options = {}) => {
  const client = createClient({ url: `redis://${host}:${port}`, ...options });
  client.on('error', () => {}); // a lost connection; the client reconnects by itself
  await client.connect();
  return client;
};

const client = await connect();
const call = (...words) => client.sendCommand(words.map(String));

await check('connect with the defaults', async () => {
  assert.equal(await client.ping(), 'PONG');
  assert.match(await client.info(), /delayd_version:/);
  const list = await client.clientList();
  assert(list.some((c) => c.libName?.startsWith('node-redis')));
});

await check('a name, a database', async () => {
  const other = await connect({ name: 'worker-1', database: 3 });
  const q = queue('node');
  assert.equal(await other.clientGetName(), 'worker-1');
  assert.equal(await other.sendCommand(['DELAY.ADD', q, '1h', 'x', 'ID', 'a']), 'a');
  assert.equal(await client.exists(q), 0);
  assert.equal(await other.exists(q), 1);
  other.destroy();
});

await check('add, and a taken id', async () => {
  const q = queue('node');
  assert.equal(await call('DELAY.ADD', q, '1h', 'x', 'ID', 'a'), 'a');
  await assert.rejects(call('DELAY.ADD', q, '1h', 'x', 'ID', 'a'), /^\w*Error: EXISTS /);
  assert.equal(await call('DELAY.ADD', q, '1h', 'x', 'ID', 'a', 'NX'), null);
  assert.equal(await call('DELAY.CANCEL', q, 'a'), 'delayed');
});

await check('a blocking pop on a connection of its own, never early', async () => {
  const q = queue('node');
  const waiter = await connect();
  const due = Date.now() + 150;
  const popped = waiter.sendCommand(['DELAY.POP', q, '5']);
  await call('DELAY.ADD', q, `@${due}`, 'x', 'ID', 'a');
  assert.deepEqual(await popped, [q, 'a', 'x']);
  assert(Date.now() >= due, `${due - Date.now()} ms early`);
  assert.equal(await waiter.sendCommand(['DELAY.POP', q, '0.1']), null);
  waiter.destroy();
});

await check('reserve, extend, acknowledge: the token is text, a map is a map', async () => {
  const q = queue('node');
  await call('DELAY.ADD', q, '0', 'x', 'ID', 'a');
  const [[name, id, body, token, attempt, due, end]] = await call('DELAY.RESERVE', '1', '1', q, 'LEASE', '5s');
  assert.deepEqual([name, id, body, attempt], [q, 'a', 'x', 1]);
  assert.equal(typeof token, 'string');
  assert(due <= Date.now() && end > Date.now());
  assert((await call('DELAY.EXTEND', q, id, token, '1m')) > end);
  const job = await call('DELAY.GET', q, id);
  assert(!Array.isArray(job));
  assert.equal(pairs(job).state, 'leased');
  assert.equal(await call('DELAY.ACK', q, id, token), 1);
  assert.equal(await call('DELAY.ACK', q, id, token), 0);
});

await check('nack, dead letter', async () => {
  const q = queue('node');
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
  const q = queue('node');
  await call('DELAY.ADD', q, '0', 'x', 'ID', 'a');
  const [job] = await call('DELAY.RESERVE', '1', '1', q);
  assert.equal(await call('DELAY.NACK', q, 'a', job[3], 'BURY'), 1);
  assert.equal(await call('DELAY.REDRIVE', q), 1);
  assert.equal((await call('DELAY.POP', q, '1'))[1], 'a');
});

await check('commands of one tick go out as one pipeline; MULTI/EXEC', async () => {
  const q = queue('node');
  const ids = await Promise.all(Array.from({ length: 500 }, (_, n) => call('DELAY.ADD', q, '0', n, 'ID', n)));
  assert.equal(ids[499], '499');
  const replies = await client
    .multi()
    .addCommand(['DELAY.POP', q, '5'])
    .addCommand(['DELAY.POP', queue('none'), '5'])
    .addCommand(['DELAY.LEN', q])
    .exec();
  assert.deepEqual(replies, [[q, '0', '0'], null, 499]);
});

await check('the list face through the client\'s own methods', async () => {
  const q = queue('node');
  await needs('RPUSH', 'LRANGE', 'BLPOP', 'LPOP');
  assert.equal(await client.rPush(q, ['a', 'b']), 2);
  assert.deepEqual(await client.lRange(q, 0, -1), ['a', 'b']);
  assert.equal(await client.type(q), 'list');
  assert.equal((await client.blPop(q, 1)).element, 'a');
  assert.equal(await client.lPop(q), 'b');
});

await check('binary bodies', async () => {
  const q = queue('node');
  const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const body = Buffer.from([0, 255, 13, 10]);
  await client.sendCommand(['DELAY.ADD', q, '0', body]);
  assert.deepEqual((await binary.sendCommand(['DELAY.POP', q, '1']))[2], body);
});

await check('a killed connection comes back by itself', async () => {
  const victim = await connect();
  const before = await victim.clientId();
  await client.sendCommand(['CLIENT', 'KILL', 'ID', String(before)]);
  await until(async () => victim.isReady && (await victim.clientId().catch(() => before)) !== before);
  assert.equal(await victim.ping(), 'PONG');
  victim.destroy();
});

await check('the client comes back after a restart of the server', async () => {
  const server = await Server.start();
  const mine = await connect({
    url: `redis://127.0.0.1:${server.port}`,
    socket: { reconnectStrategy: () => 20 },
  });
  try {
    await server.stop();
    await until(() => !mine.isReady);
    await server.start();
    // Queued while offline; and that may be over while the journal is being loaded.
    const answers = () => mine.ping().catch((error) => assert.match(error.message, /^LOADING /));
    await until(async () => (await answers()) === 'PONG');
    await mine.sendCommand(['DELAY.ADD', 'q', '50ms', 'x', 'ID', 'a']);
    assert.equal((await mine.sendCommand(['DELAY.POP', 'q', '2']))[1], 'a');
  } finally {
    mine.destroy();
    await server.end();
  }
});

await check('publish and subscribe', async () => {
  await needs('SUBSCRIBE', 'PUBLISH');
  const subscriber = await connect();
  const got = [];
  const channel = queue('news');
  await subscriber.subscribe(channel, (message) => got.push(message));
  assert.equal(await client.publish(channel, 'hello'), 1);
  await until(() => got.length === 1);
  assert.deepEqual(got, ['hello']);
  subscriber.destroy();
});

await check('twenty waiters, twenty jobs, each taken once', async () => {
  const q = queue('node');
  const waiters = await Promise.all(Array.from({ length: 20 }, () => connect()));
  const popped = waiters.map((waiter) => waiter.sendCommand(['DELAY.POP', q, '5']));
  const due = Date.now() + 200;
  for (let n = 0; n < 20; n++) await call('DELAY.ADD', q, `@${due}`, n);
  const bodies = (await Promise.all(popped)).map((job) => Number(job[2]));
  assert(Date.now() >= due);
  assert.deepEqual(bodies.sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => n));
  waiters.forEach((waiter) => waiter.destroy());
});

finish();
