// node-redis with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.

import { setTimeout as sleep } from 'node:timers/promises';
import { createSentinel } from 'redis';

const sentinelRootNodes = process.argv[2].split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});
// A connection for what waits, and one for everything else.
const queue = await createSentinel({
  name: 'delayd',
  sentinelRootNodes,
  masterPoolSize: 2,
  nodeClientOptions: { socket: { connectTimeout: 300, socketTimeout: 1500 }, pingInterval: 500 },
  sentinelClientOptions: { socket: { connectTimeout: 300, socketTimeout: 500 }, pingInterval: 200 },
})
  .on('error', (error) => console.log(error.message))
  .connect();

async function call(...words) {
  for (;;) {
    try {
      return await queue.sendCommand(false, words);
    } catch (error) {
      console.log(error.message);
      await sleep(20);
    }
  }
}

async function produce() {
  for (let number = 1; ; number++) {
    await call('DELAY.ADD', 'q', '0', 'x', 'ID', `job:${number}`, 'NX');
    console.log(`added ${number}`);
  }
}

async function work() {
  for (;;) {
    for (const [, job, , token] of (await call('DELAY.RESERVE', '1', '1', 'q', 'LEASE', '5s')) ?? []) {
      const number = job.split(':')[1];
      console.log(`taken ${number}`);
      await call('DELAY.ACK', 'q', job, token);
      console.log(`done ${number}`);
    }
  }
}

process.stdin.resume().on('end', () => process.exit());
produce();
work();
