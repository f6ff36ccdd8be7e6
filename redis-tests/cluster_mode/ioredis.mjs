// ioredis's Cluster, which is told where three nodes are: what it can do, then a producer and a worker.

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { produce, work } from '../lib/workload.mjs';

const nodes = process.argv[2].split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});
const redisOptions = { connectTimeout: 300, socketTimeout: 1500 };
const connect = () =>
  new Redis.Cluster(nodes, { redisOptions, clusterRetryStrategy: (times) => Math.min(times * 10, 200) })
    .on('error', (error) => console.log(error.message));
const lines = createInterface({ input: process.stdin });
const input = lines[Symbol.asyncIterator]();

async function together(commands) {
  for (const [error] of await commands.exec()) if (error) throw error;
}

async function waitAndAdd(client) {
  const waiting = client.call('DELAY.LEASE', 'empty', '1');
  await sleep(100);
  const began = Date.now();
  await client.call('DELAY.ADD', 'other', '0', 'x');
  const took = Date.now() - began;
  await waiting;
  return `an add beside it took ${took < 300 ? 'no time' : 'its time, too'}`;
}

async function checks() {
  const client = connect();
  await client.call('DELAY.LEN', 'q');
  const everything = {
    add: () => client.call('DELAY.ADD', 'q', '0', 'x'),
    lease: () => client.call('DELAY.LEASE', 'q', 'NOWAIT'),
    reserve: () => client.call('DELAY.RESERVE', 'NOWAIT', '1', 'q'),
    pipeline: () => together(client.pipeline([1, 2, 3].map((n) => ['call', 'DELAY.ADD', `{q}:${n}`, '0', 'x']))),
    multi: () => together(client.multi([['call', 'DELAY.ADD', '{t}:a', '0', 'x'], ['call', 'DELAY.ADD', '{t}:b', '0', 'x']])),
    wait: () => waitAndAdd(client),
    keyless: () => client.call('DELAY.QUEUES'),
    all: () => Promise.all(client.nodes('master').map((node) => node.call('DELAY.QUEUES'))),
  };
  for (const [name, check] of Object.entries(everything)) {
    try {
      const found = await check();
      console.log(`checked ${name} right${typeof found === 'string' && name === 'wait' ? `: ${found}` : ''}`);
    } catch (error) {
      console.log(`checked ${name} ${error.message}`);
    }
    await input.next();
  }
  client.disconnect();
}

await checks();
lines.on('close', () => process.exit());
// What waits has a connection of its own.
const [producing, working] = [connect(), connect()];
produce((...words) => producing.call(...words));
work((...words) => working.call(...words), 'DELAY.LEASE', 'q', '1', 'LEASE', '5s');
