// With a client of node-redis, whose options are taken over.

import { Queue, Worker } from 'delayd';
import { createClient } from 'redis';

const connection = createClient({ url: 'redis://127.0.0.1:9248' });
const queue = new Queue('emails', connection);
new Worker('emails', async (body: { to: string }) => body.to, { connection });
await queue.add({ to: 'ada' });
