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

/** Listens while it can: nothing if the port is taken. */
function listener(port, host) {
  const server = net.createServer().listen(port, host);
  return once(server, 'listening').then(() => server.unref(), () => null);
}

const close = (servers) => Promise.all(servers.map((server) => server && (server.close(), once(server, 'close'))));

/** So many ports in a row that are free, and below those that the system gives away. They are held for as long as this process
 * lives, by listeners on another address of the loopback, so that a server that is started again finds them free. */
export async function freePort(count = 1) {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const row = (host) => Promise.all(Array.from({ length: count }, (_, at) => listener(port + at, host)));
    const [held, probes] = await Promise.all([row('127.0.0.2'), row('127.0.0.1')]);
    await close(probes);
    if ([...held, ...probes].every(Boolean)) return port;
    await close(held);
  }
}

const running = new Set();
process.on('exit', () => running.forEach((server) => server.kill()));

/** A delayd of one's own. It keeps its ports and its folder when it is started again. */
export class Server {
  partitions = 1;

  static start(...options) {
    return Server.spread(1, ...options);
  }

  /** With so many partitions. */
  static async spread(partitions, ...options) {
    const server = new Server();
    server.partitions = partitions;
    server.options = partitions > 1 ? ['--cluster-partitions', partitions, ...options] : options;
    server.dir = mkdtempSync(join(tmpdir(), 'delayd-node-'));
    server.port = await freePort(partitions);
    await server.start();
    return server;
  }

  get ports() {
    return Array.from({ length: this.partitions }, (_, at) => this.port + at);
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  async start() {
    const options = ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.dir, '--journal-segment-size', `${this.partitions}mb`, ...this.options];
    this.child = spawn(process.env.DELAYD_BIN, options.map(String), { stdio: 'ignore' });
    this.gone = once(this.child, 'exit');
    running.add(this);
    await until(async () => {
      assert.equal(this.child.exitCode, null, `delayd ${options.join(' ')} ended`);
      const replies = await Promise.all(this.ports.map(async (port) => {
        const connection = await Plain.open(port).catch(() => undefined);
        const reply = await connection?.call('PING').catch(() => undefined);
        connection?.end();
        return reply;
      }));
      return replies.every((reply) => reply === 'PONG');
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
    return object(await this.call(...words));
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

/** Plain connections to all partitions of a server: each command goes to that of its queue. */
export class Plains {
  static async open(server) {
    const plains = new Plains();
    plains.all = await Promise.all(server.ports.map((port) => Plain.open(port)));
    plains.ports = server.ports;
    return plains;
  }

  async call(...words) {
    return this.all[0].call(...words).catch((error) => {
      const [, port] = /^MOVED \d+ .*:(\d+)$/.exec(error.message) ?? [];
      if (!port) throw error;
      return this.all[this.ports.indexOf(Number(port))].call(...words);
    });
  }

  async map(...words) {
    return object(await this.call(...words));
  }

  /** That to the partition of a queue. */
  async of(queue) {
    for (const plain of this.all) if (await plain.call('DELAY.STATS', queue).then(() => true, () => false)) return plain;
    throw new Error(`no partition has ${queue}`);
  }

  end() {
    for (const plain of this.all) plain.end();
  }
}

const object = (reply) => reply && Object.fromEntries(reply.flatMap((item, at) => (at % 2 ? [] : [[item, reply[at + 1]]])));

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
