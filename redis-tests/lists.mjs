// Workers written for Redis lists, unchanged, with ioredis and node-redis: a connection that blocks, one that pushes.

import Redis from 'ioredis';
import { createClient } from 'redis';
import { assert, check, finish, host, needs, port, queue, until } from './lib/harness.mjs';

/** What differs between the two clients. */
async function nodeRedis() {
  const open = async () => {
    const client = createClient({ url: `redis://${host}:${port}` });
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const [waiting, client] = [await open(), await open()];
  return {
    push: (q, ...bodies) => client.lPush(q, bodies),
    pop: async (q, seconds) => (await waiting.brPop(q, seconds))?.element ?? null,
    move: (from, to, seconds) => waiting.blMove(from, to, 'RIGHT', 'LEFT', seconds),
    done: (q, body) => client.lRem(q, 1, body),
    range: (q) => client.lRange(q, 0, -1),
    length: (q) => client.lLen(q),
    call: (...words) => client.sendCommand(words),
    end: () => [waiting, client].forEach((c) => c.destroy()),
  };
}

async function ioredis() {
  const [waiting, client] = [new Redis(port, host), new Redis(port, host)];
  return {
    push: (q, ...bodies) => client.lpush(q, ...bodies),
    pop: async (q, seconds) => (await waiting.brpop(q, seconds))?.[1] ?? null,
    move: (from, to, seconds) => waiting.blmove(from, to, 'RIGHT', 'LEFT', seconds),
    done: (q, body) => client.lrem(q, 1, body),
    range: (q) => client.lrange(q, 0, -1),
    length: (q) => client.llen(q),
    call: (...words) => client.call(...words),
    end: () => [waiting, client].forEach((c) => c.disconnect()),
  };
}

for (const [name, open] of Object.entries({ 'node-redis': nodeRedis, ioredis })) {
  await check(`${name}: LPUSH and BRPOP: first in, first out; nil at the timeout`, async () => {
    await needs('LPUSH', 'BRPOP');
    const [c, q] = [await open(), queue('list')];
    const taken = (async () => {
      const bodies = [];
      while (bodies.length < 50) bodies.push(await c.pop(q, 5));
      return bodies;
    })();
    for (let n = 0; n < 50; n++) await c.push(q, `${n}`);
    assert.deepEqual(await taken, Array.from({ length: 50 }, (_, n) => `${n}`));
    assert.equal(await c.pop(q, 0.02), null);
    c.end();
  });

  await check(`${name}: BLMOVE to a list of one's own, LREM when done; a worker that dies loses nothing`, async () => {
    await needs('BLMOVE', 'LREM');
    const [c, q] = [await open(), queue('list')];
    const mine = `${q}:processing`;
    const moved = c.move(q, mine, 5);
    await c.push(q, 'a', 'b');
    assert.equal(await moved, 'a');
    assert.deepEqual([await c.range(q), await c.range(mine)], [['b'], ['a']]);
    assert.equal(await c.done(mine, 'a'), 1);
    const dying = await open();
    const last = dying.move(q, mine, 5);
    assert.equal(await last, 'b');
    dying.end();
    assert.deepEqual([await c.length(q), await c.range(mine)], [0, ['b']]);
    assert.equal(await c.move(q, mine, 0.02), null);
    c.end();
  });

  await check(`${name}: a job that falls due wakes BLMOVE, never early`, async () => {
    await needs('BLMOVE', 'DELAY.ADD');
    const [c, q] = [await open(), queue('list')];
    const moved = c.move(q, `${q}:mine`, 5);
    const due = Date.now() + 100;
    await c.call('DELAY.ADD', q, `@${due}`, 'later');
    assert.equal(await moved, 'later');
    assert(Date.now() >= due);
    await until(async () => (await c.length(`${q}:mine`)) === 1);
    c.end();
  });
}

finish();
