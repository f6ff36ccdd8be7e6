// With a client of ioredis, whose options are taken over: here Sentinels.

import { Queue, Worker } from 'delayd';
import { Redis } from 'ioredis';

const connection = new Redis({ sentinels: [{ host: '127.0.0.1', port: 26379 }], name: 'delayd', lazyConnect: true });
const queue = new Queue('emails', connection);
new Worker('emails', async (body: { to: string }) => body.to, { connection });
new Worker('emails', () => {}, { connection: { host: '127.0.0.1', port: 9248 } });
await queue.add({ to: 'ada' });
