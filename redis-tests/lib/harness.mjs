// What the Node programs share: one line per check, a server of one's own. See harness.py.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export { assert, sleep };
export const host = process.env.DELAYD_HOST ?? '127.0.0.1';
export const port = Number(process.env.DELAYD_PORT ?? 9248);

/** Thrown inside a check that cannot run here. */
export class Skip extends Error {}

/** Runs one check and prints its line. A failed one makes the program end with status 1. */
export async function check(name, body) {
  const started = performance.now();
  try {
    await body();
    console.log(`ok - ${name} (${Math.round(performance.now() - started)} ms)`);
  } catch (error) {
    if (error instanceof Skip) return console.log(`skip - ${name}: ${error.message}`);
    const place = error.stack?.split('\n').find((l) => /redis-tests\/(?!lib|node_modules)/.test(l));
    const text = String(error).replace(/\s*\n\s*/g, ' | ').slice(0, 600);
    console.log(`not ok - ${name}: ${text} ${place?.trim() ?? ''}`);
    process.exitCode = 1;
  }
}

/** Leaves at once: a check that failed may have left connections open. */
export const finish = () => process.exit();

// What a failed check left waiting has been reported with it.
process.on('unhandledRejection', () => {});

/** Skips the check when the server does not have these commands. */
export async function needs(...commands) {
  for (const name of commands) {
    const socket = net.connect(port, host);
    socket.write(`COMMAND INFO ${name}\r\n`);
    const [reply] = await once(socket, 'data');
    socket.destroy();
    if (String(reply) === '*1\r\n$-1\r\n') throw new Skip(`this server has no ${name}`);
  }
}

let queues = 0;
/** A queue name that no other run uses. */
export const queue = (name) => `${name}:${process.pid}:${++queues}`;

/** A map as an object, whichever way the client shows it: flat array, object or Map. */
export function pairs(reply) {
  if (reply instanceof Map) return Object.fromEntries(reply);
  if (!Array.isArray(reply)) return { ...reply };
  return Object.fromEntries(reply.flatMap((item, at) => (at % 2 ? [] : [[item, reply[at + 1]]])));
}

/** Returns when the condition holds; says so when it never does. */
export async function until(condition, ms = 5000) {
  const deadline = performance.now() + ms;
  while (!(await condition())) {
    assert(performance.now() < deadline, `did not come true within ${ms} ms`);
    await sleep(5);
  }
}

export const freePort = () =>
  new Promise((resolve) => {
    const probe = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

const listens = (port) =>
  new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('connect', () => socket.end(resolve(true)));
    socket.on('error', () => resolve(false));
  });

/** A server of one's own that can be stopped and started again. */
export class Server {
  static async start(...flags) {
    if (!process.env.DELAYD_BIN) {
      throw new Skip('needs a server of its own, and only a running one is given');
    }
    const server = new Server();
    server.flags = flags;
    server.port = await freePort();
    server.home = mkdtempSync(join(tmpdir(), 'delayd-test-'));
    await server.start();
    return server;
  }

  async start() {
    const flags = ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.home, '--journal-segment-size', '1mb'];
    this.child = spawn(process.env.DELAYD_BIN, [...flags, ...this.flags].map(String), { stdio: 'ignore' });
    await until(() => {
      assert.equal(this.child.exitCode, null, `the server does not start with ${this.flags.join(' ')}`);
      return listens(this.port);
    }, 10000);
  }

  async stop() {
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGTERM');
    await gone;
  }

  async end() {
    await this.stop();
    rmSync(this.home, { recursive: true });
  }
}
