// ioredis with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.

import Redis from 'ioredis';
import { produce, work } from '../lib/workload.mjs';

const sentinels = process.argv[2].split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});
const limits = { socketTimeout: 1500, connectTimeout: 300, sentinelCommandTimeout: 300 };
const options = { sentinels, name: 'delayd', ...limits, sentinelRetryStrategy: (times) => Math.min(times * 10, 200) };
const [producing, working] = [new Redis(options), new Redis(options)];
for (const client of [producing, working]) client.on('error', (error) => console.log(error.message));

process.stdin.resume().on('end', () => process.exit());
produce((...words) => producing.call(...words));
work((...words) => working.call(...words), 'DELAY.RESERVE', '1', '1', 'q', 'LEASE', '5s');
