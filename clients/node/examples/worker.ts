// A worker with options, a schedule, and a handler that steers its job.

import { Bury, Retry, Snooze, Worker, type Job } from 'delayd';

interface Mail {
  to: string;
}

async function send(mail: Mail, job: Job<Mail>): Promise<string> {
  if (!mail.to) throw new Bury('no address');
  if (new Date().getUTCHours() < 6) throw new Snooze('2h');
  const reply = await fetch('http://127.0.0.1:8025/', { method: 'POST', body: mail.to, signal: job.signal });
  if (reply.status === 429) throw new Retry('5m', 'told to wait');
  return reply.statusText;
}

const worker = new Worker<Mail, string>('emails', send, { concurrency: 8, lease: '30s', timeout: '1m', app: 'shop', sync: true });
worker.every('5m', 'poll', async () => {}, { overlap: 'skip' });
worker.cron('0 8 * * 1-5', 'report', async (body: { day: string }) => body.day, { tz: 'Europe/Berlin', body: { day: 'today' } });

worker.on('completed', (job, result) => console.log(job.id, result.toUpperCase()));
worker.on('failed', (job, error) => console.log(job.id, job.attempt, error.message));
await worker.run();
