// ioredis with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.

import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const sentinels = process.argv[2].split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});
const limits = { socketTimeout: 1500, connectTimeout: 300, sentinelCommandTimeout: 300 };
const options = { sentinels, name: 'delayd', ...limits, sentinelRetryStrategy: (times) => Math.min(times * 10, 200) };
const [producing, working] = [new Redis(options), new Redis(options)];
for (const client of [producing, working]) client.on('error', (error) => console.log(error.message));

async function call(client, ...words) {
  for (;;) {
    try {
      return await client.call(...words);
    } catch (error) {
      console.log(error.message);
      await sleep(20);
    }
  }
}

async function produce() {
  for (let number = 1; ; number++) {
    await call(producing, 'DELAY.ADD', 'q', '0', 'x', 'ID', `job:${number}`, 'NX');
    console.log(`added ${number}`);
  }
}

async function work() {
  for (;;) {
    for (const [, job, , token] of (await call(working, 'DELAY.RESERVE', '1', '1', 'q', 'LEASE', '5s')) ?? []) {
      const number = job.split(':')[1];
      console.log(`taken ${number}`);
      await call(working, 'DELAY.ACK', 'q', job, token);
      console.log(`done ${number}`);
    }
  }
}

process.stdin.resume().on('end', () => process.exit());
produce();
work();
