// Notify a merchant of a payment; on failure try again later and later, then give up visibly.
//
// The ladder of 1s 5s 10s 30s 1m 2m … 2h is 100ms 200ms 400ms here, with four attempts.

import { createClient } from 'redis';

const queue = 'case:payments:notify';
const ladder = [100, 200, 400];
const url = `redis://${process.env.DELAYD_HOST ?? '127.0.0.1'}:${process.env.DELAYD_PORT ?? 9248}`;
const client = createClient({ url });
await client.connect();
const call = (...words) => client.sendCommand(words);

const started = performance.now();
const say = (text) => console.log(`${String(Math.round(performance.now() - started)).padStart(6)} ms  ${text}`);
const claim = (text, holds) => {
  console.log(`${holds ? 'ok' : 'not ok'} - ${text}`);
  if (!holds) process.exit(1);
};

await client.del(queue);
const backoff = ladder.map((ms) => `${ms}ms`).join(',');
await call('DELAY.ADD', queue, '0', 'paid 12 EUR', 'ID', 'payment:1', 'ATTEMPTS', '4', 'BACKOFF', backoff);
say(`payment 1 is to be told to the merchant; four attempts, waiting ${backoff} in between`);

let failedAt = 0;
for (let tries = 1; tries <= 4; tries++) {
  const [[, id, body, token, attempt]] = await call('DELAY.RESERVE', '5', '1', queue, 'LEASE', '10s');
  say(`attempt ${attempt}: POST "${body}": the merchant does not answer`);
  claim(`attempt ${tries} is counted`, attempt === tries);
  if (tries > 1) {
    const waited = performance.now() - failedAt;
    claim(`it waited ${ladder[tries - 2]}ms, not less`, Math.ceil(waited) >= ladder[tries - 2]);
  }
  failedAt = performance.now();
  claim('the failure is accepted', (await call('DELAY.NACK', queue, id, token, 'ERROR', 'connect timed out')) === 1);
}

const dead = await call('DELAY.PEEK', queue, 'DEAD');
claim('after four attempts it is among the dead letters', dead.length === 1 && dead[0][0] === 'payment:1');
const reply = await call('DELAY.GET', queue, 'payment:1');
say(`it died of "${reply.reason}"; the last error was "${reply.error}"`);
claim('nobody gets it any more', (await call('DELAY.RESERVE', 'NOWAIT', '1', queue)) === null);

say('the merchant is back; an operator schedules it anew');
await call('DELAY.ADD', queue, '0', dead[0][3], 'ID', 'payment:1', 'REPLACE', 'ATTEMPTS', '4', 'BACKOFF', backoff);
const [[, id, body, token, attempt]] = await call('DELAY.RESERVE', '5', '1', queue);
say(`attempt ${attempt}: POST "${body}": 200 OK`);
claim('it starts again with attempt 1', attempt === 1);
claim('and is done', (await call('DELAY.ACK', queue, id, token)) === 1);
client.destroy();
