// What the clients' programs do while leaders end: a producer and a worker, which try again until they are answered.

import { setTimeout as sleep } from 'node:timers/promises';

async function insist(call, ...words) {
  for (;;) {
    try {
      return await call(...words);
    } catch (error) {
      console.log(error.message);
      await sleep(20);
    }
  }
}

export async function produce(call) {
  for (let number = 1; ; number++) {
    await insist(call, 'DELAY.ADD', 'q', '0', 'x', 'ID', `job:${number}`, 'NX');
    console.log(`added ${number}`);
  }
}

/** `take` is the command that leases a job of q. */
export async function work(call, ...take) {
  for (;;) {
    for (const [, job, , token] of (await insist(call, ...take)) ?? []) {
      const number = job.split(':')[1];
      console.log(`taken ${number}`);
      await insist(call, 'DELAY.ACK', 'q', job, token);
      console.log(`done ${number}`);
    }
  }
}
