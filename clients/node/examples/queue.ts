// A producer.

import { DelaydError, Queue, startDelayd } from 'delayd';
import { runInline } from 'delayd/testing';

await using server = await startDelayd();
const emails = new Queue<{ to: string }>('emails', server.url);

const id: string = await emails.add({ to: 'ada' }, { delay: '30m', id: 'mail:7', attempts: 5, backoff: ['1s', '10s', '1m'] });
const taken: string | null = await emails.add({ to: 'ada' }, { id, nx: true });
await emails.addBulk([{ body: { to: 'bob' }, delay: new Date('2030-01-31T08:00:00Z') }, { body: { to: 'eve' }, priority: 0 }], { atomic: true });
console.log(taken, await emails.reschedule(id, '1h', { gt: true }), await emails.cancel(id));

const { next } = await emails.schedule('daily', { cron: '0 8 * * *', tz: 'Europe/Berlin', body: { to: 'all' } });
console.log(next?.toISOString(), (await emails.get('mail:8'))?.state, (await emails.stats())?.delayed);

try {
  await emails.add({ to: 'ada' }, { id: 'mail:9', delay: '400000d' });
} catch (error) {
  if (error instanceof DelaydError) console.log(error.code);
}
const { outcome } = await runInline(async (mail: { to: string }) => mail.to, { to: 'ada' });
console.log(outcome);
await emails.close();
