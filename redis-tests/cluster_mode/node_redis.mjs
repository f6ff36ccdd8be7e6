// node-redis's cluster, which is told where three nodes are: what it can do, then a producer and a worker.

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCluster } from 'redis';
import { produce, work } from '../lib/workload.mjs';

const rootNodes = process.argv[2].split(',').map((address) => ({ url: `redis://${address}` }));
// What is said to a node that is gone fails at once: the queue for it would be forgotten with the node.
const defaults = { socket: { connectTimeout: 300, socketTimeout: 1500 }, pingInterval: 500, disableOfflineQueue: true };
// By itself it asks only after 5 s of connecting in vain who leads now.
const options = { rootNodes, defaults, topologyRefreshOnReconnectionAttemptStrategy: 100 };
const connect = () =>
  createCluster(options).on('error', (error) => console.log(error.message)).connect();
const lines = createInterface({ input: process.stdin });
const input = lines[Symbol.asyncIterator]();

// The caller names the key; nothing is only read.
const say = (client, key, ...words) => client.sendCommand(key, false, words);

async function waitAndAdd(client) {
  const waiting = say(client, 'empty', 'DELAY.LEASE', 'empty', '1');
  await sleep(100);
  const began = Date.now();
  await say(client, 'other', 'DELAY.ADD', 'other', '0', 'x');
  const took = Date.now() - began;
  await waiting;
  return `an add beside it took ${took < 300 ? 'no time' : 'its time, too'}`;
}

function together(commands, names) {
  for (const name of names) commands.addCommand(name, false, ['DELAY.ADD', name, '0', 'x']);
  return commands;
}

async function checks() {
  const client = await connect();
  await say(client, 'q', 'DELAY.LEN', 'q');
  const everything = {
    add: () => say(client, 'q', 'DELAY.ADD', 'q', '0', 'x'),
    lease: () => say(client, 'q', 'DELAY.LEASE', 'q', 'NOWAIT'),
    reserve: () => say(client, 'q', 'DELAY.RESERVE', 'NOWAIT', '1', 'q'),
    pipeline: () => together(client.multi(), ['{q}:1', '{q}:2', '{q}:3']).execAsPipeline(),
    multi: () => together(client.multi(), ['{t}:a', '{t}:b']).exec(),
    wait: () => waitAndAdd(client),
    keyless: () => say(client, undefined, 'DELAY.QUEUES'),
    all: () => Promise.all(client.masters.map(async (master) => (await client.nodeClient(master)).sendCommand(['DELAY.QUEUES']))),
  };
  for (const [name, check] of Object.entries(everything)) {
    try {
      const found = await check();
      console.log(`checked ${name} right${name === 'wait' ? `: ${found}` : ''}`);
    } catch (error) {
      console.log(`checked ${name} ${error.message}`);
    }
    await input.next();
  }
  await client.close();
}

// One that has given a node up, as after socketTimeout, does not come back: it is made anew.
function queue() {
  let client;
  return async (...words) => {
    try {
      client ??= await connect();
      return await say(client, 'q', ...words);
    } catch (error) {
      if (/client is closed/i.test(error.message)) {
        client?.destroy();
        client = undefined;
      }
      throw error;
    }
  };
}

await checks();
lines.on('close', () => process.exit());
produce(queue());
work(queue(), 'DELAY.LEASE', 'q', '1', 'LEASE', '5s');
