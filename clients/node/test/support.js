// What the tests share: real servers, a plain connection, waiting for what comes true.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export { assert, sleep };

/** Machines are loaded: nothing that should come true is given up earlier. */
const PATIENCE_MS = 30_000;

/** Returns what the condition answers, once it is true. */
export async function until(condition, what = 'it', ms = PATIENCE_MS) {
  for (const end = performance.now() + ms; ; await sleep(5)) {
    const answer = await condition();
    if (answer) return answer;
    assert(performance.now() < end, `${what} did not come true within ${ms} ms`);
  }
}

/** A port that is free now, and below those that the system gives away: a server that is started again finds it free. */
export async function freePort() {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const probe = net.createServer().listen(port, '127.0.0.1');
    const isFree = await Promise.race([once(probe, 'listening').then(() => true, () => false), once(probe, 'error').then(() => false)]);
    if (!isFree) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}

const running = new Set();
process.on('exit', () => running.forEach((server) => server.kill()));

/** A delayd of one's own. It keeps its port and its folder when it is started again. */
export class Server {
  static async start(...options) {
    const server = new Server();
    server.options = options;
    server.dir = mkdtempSync(join(tmpdir(), 'delayd-node-'));
    server.port = await freePort();
    await server.start();
    return server;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  async start() {
    const options = ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.dir, '--journal-segment-size', '1mb', ...this.options];
    this.child = spawn(process.env.DELAYD_BIN, options.map(String), { stdio: 'ignore' });
    this.gone = once(this.child, 'exit');
    running.add(this);
    await until(async () => {
      assert.equal(this.child.exitCode, null, `delayd ${options.join(' ')} ended`);
      const connection = await Plain.open(this.port).catch(() => undefined);
      const reply = await connection?.call('PING').catch(() => undefined);
      connection?.end();
      return reply === 'PONG';
    }, 'the server');
  }

  kill() {
    this.child.kill('SIGKILL');
  }

  async stop(signal = 'SIGTERM') {
    this.child.kill(signal);
    await this.gone;
    running.delete(this);
  }

  async end() {
    await this.stop('SIGKILL');
    rmSync(this.dir, { recursive: true });
  }
}

const strict = new TextDecoder('utf-8', { fatal: true });

/** RESP2 by hand, so that the tests do not see the server through what they test. */
export class Plain {
  #socket;
  #bytes = Buffer.alloc(0);
  #waiting = [];

  static async open(port) {
    const plain = new Plain();
    plain.#socket = net.connect(port, '127.0.0.1');
    await once(plain.#socket, 'connect');
    plain.#socket.on('error', () => {});
    plain.#socket.on('close', () => plain.#waiting.splice(0).forEach(({ reject }) => reject(new Error('closed'))));
    plain.#socket.on('data', (data) => plain.#read(data));
    return plain;
  }

  call(...words) {
    const parts = words.flat().map((word) => Buffer.from(String(word)));
    this.#socket.write(Buffer.concat([Buffer.from(`*${parts.length}\r\n`), ...parts.flatMap((part) => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from('\r\n')])]));
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  /** A map as an object. */
  async map(...words) {
    const reply = await this.call(...words);
    return reply && Object.fromEntries(reply.flatMap((item, at) => (at % 2 ? [] : [[item, reply[at + 1]]])));
  }

  end() {
    this.#socket.destroy();
  }

  #read(data) {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    for (let found; (found = parse(this.#bytes, 0)); ) {
      this.#bytes = this.#bytes.subarray(found.next);
      const { resolve, reject } = this.#waiting.shift();
      if (found.value instanceof Error) reject(found.value);
      else resolve(found.value);
    }
  }
}

export function parse(bytes, at) {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return undefined;
  const [kind, line, after] = [String.fromCharCode(bytes[at]), bytes.toString('latin1', at + 1, end), end + 2];
  if (kind === '+') return { value: line, next: after };
  if (kind === '-') return { value: new Error(bytes.toString('utf8', at + 1, end)), next: after };
  if (kind === ':') return { value: Number(line), next: after };
  const count = Number(line);
  if (count < 0) return { value: null, next: after };
  if (kind === '$') {
    if (bytes.length < after + count + 2) return undefined;
    return { value: strict.decode(bytes.subarray(after, after + count)), next: after + count + 2 };
  }
  const value = [];
  let next = after;
  for (let left = count; left > 0; left--) {
    const item = parse(bytes, next);
    if (!item) return undefined;
    value.push(item.value);
    next = item.next;
  }
  return { value, next };
}

/** What a worker logs, kept. */
export function keeper() {
  const lines = [];
  const keep = (line) => lines.push(line);
  return { lines, info: keep, warn: keep, error: keep };
}
