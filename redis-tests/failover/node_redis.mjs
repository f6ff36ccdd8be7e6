// node-redis with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.

import { createSentinel } from 'redis';
import { produce, work } from '../lib/workload.mjs';

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

const call = (...words) => queue.sendCommand(false, words);
process.stdin.resume().on('end', () => process.exit());
produce(call);
work(call, 'DELAY.RESERVE', '1', '1', 'q', 'LEASE', '5s');
