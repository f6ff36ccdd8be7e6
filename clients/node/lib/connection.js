// Connections over ioredis or node-redis, whichever the program has. The library below neither reconnects nor sends anything
// twice: the callers know what is safe to repeat.

import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

import { DelaydError, anotherLeads, asDelaydError, connectionError, passes } from './errors.js';
import { now } from './time.js';

export const VERSION = createRequire(import.meta.url)('../package.json').version;
export const DEFAULT_URL = 'redis://127.0.0.1:9248';
const LEAST_SERVER = '0.1.0';
const CONNECT_MS = 5_000;
/** How long a reply may take, beyond what the command itself waits. */
const PATIENCE_MS = 5_000;
/** A blocked event loop runs its timers before it reads what has arrived meanwhile: look again after that. */
const SECOND_LOOK_MS = 100;
const BACKOFF_MS = { first: 100, limit: 10_000 };

/** @typedef {{ client: any, send: (args: any[]) => Promise<any>, close: () => void }} Adapter */

/** ioredis 5 or later. @param {any} spec a client, options, or a URL @param {any} address instead of its own @returns {Promise<Adapter>} */
async function ioredis(spec, address) {
  const settings = {
    lazyConnect: true, retryStrategy: null, sentinelRetryStrategy: null, enableOfflineQueue: false, enableReadyCheck: false,
    autoResendUnfulfilledCommands: false, disableClientInfo: true, connectTimeout: CONNECT_MS, protocol: 2,
    commandTimeout: undefined, socketTimeout: undefined, ...address,
  };
  const { Redis } = spec.duplicate ? spec.constructor : await import('ioredis');
  const client = spec.duplicate?.(settings) ?? (typeof spec === 'string' ? new Redis(address ?? {}, spec, settings) : new Redis({ ...spec, ...settings }));
  return { client, send: (args) => client.callBuffer(...args), close: () => client.disconnect() };
}

/** @type {any} */
let template;
/** node-redis 5 or later. @param {any} spec @param {any} address @returns {Promise<Adapter>} */
async function nodeRedis(spec, address) {
  const options = spec.duplicate ? spec.options : typeof spec === 'string' ? { url: spec } : asNodeRedis(spec);
  const settings = {
    ...(address && options.url && { url: moved(options.url, address) }),
    socket: { ...options.socket, ...address, reconnectStrategy: false, connectTimeout: CONNECT_MS, socketTimeout: undefined },
    RESP: 2, disableOfflineQueue: true, disableClientInfo: true, maintNotifications: 'disabled', pingInterval: undefined,
  };
  // createClient() makes a class with hundreds of methods each time, duplicate() does not.
  const base = spec.duplicate ? spec : (template ??= (await import('redis')).createClient({ RESP: 2 }));
  const client = base.duplicate({ ...options, ...settings });
  const bytes = { typeMapping: { ['$'.charCodeAt(0)]: Buffer } };
  return { client, send: (args) => client.sendCommand(args, bytes), close: () => client.isOpen && client.destroy() };
}

/** A URL with another address. @param {string} url @param {{ host?: string, port: number }} address */
function moved(url, { host, port }) {
  const all = new URL(url);
  if (host) all.hostname = host.includes(':') ? `[${host}]` : host;
  all.port = String(port);
  return all.href;
}

/** The options of ioredis and BullMQ in the words of node-redis. @param {any} spec */
function asNodeRedis(spec) {
  if (spec.url || spec.socket) return spec;
  const { host, port, path, tls, db, ...rest } = spec;
  return { ...rest, database: db, socket: { host, port, path, ...(tls && { ...tls, tls: true }) } };
}

/** @param {string} name */
const isInstalled = (name) =>
  import(name).then(() => true, (error) => {
    if (error.code === 'ERR_MODULE_NOT_FOUND') return false;
    throw error;
  });

/** @param {any} spec @param {any} address @returns {Promise<Adapter>} */
async function adapter(spec, address) {
  if (typeof spec.callBuffer === 'function') return ioredis(spec, address);
  if (spec.duplicate || spec.socket || spec.url) return nodeRedis(spec, address);
  if (await isInstalled('ioredis')) return ioredis(spec, address);
  if (await isInstalled('redis')) return nodeRedis(spec, address);
  throw new DelaydError('delayd needs ioredis or redis: npm install ioredis', 'ERR');
}

/** One connection, from its opening to its loss. */
export class Connection {
  #pending = new Set();
  #adapter;
  #isEnded = false;
  /** As CLIENT UNBLOCK takes it; unknown where CLIENT ID is not permitted. @type {number | undefined} */
  id;
  /** What CLUSTER SLOTS answers; nothing where it is refused, as by a server without partitions. @type {any[] | undefined} */
  slots;
  /** Why it ended. @type {DelaydError | undefined} */
  lost;
  onLost = () => {};

  /** @param {Adapter} adapter */
  constructor(adapter) {
    this.#adapter = adapter;
    adapter.client.on('error', (/** @type {unknown} */ error) => this.close(asDelaydError(error)));
    for (const event of ['close', 'end']) adapter.client.on(event, () => this.close(connectionError('the server closed the connection')));
  }

  /** @param {any} spec @param {any} address instead of that of the spec @param {string} name for CLIENT SETNAME */
  static async open(spec, address, name, patience_ms = CONNECT_MS) {
    const connection = new Connection(await adapter(spec, address));
    try {
      // Clients may go on connecting for a while after the connection was cut.
      await connection.#within(patience_ms, () => connection.#adapter.client.connect(), 'connect');
      await connection.#within(patience_ms, () => connection.#introduce(name), 'CLIENT');
    } catch (error) {
      // What the connection ended of says more than what connect() rejects with.
      const cause = connection.lost ?? asDelaydError(error);
      connection.close(cause);
      throw cause;
    }
    if (connection.lost) throw connection.lost;
    return connection;
  }

  /** Tells the server what this is, and asks what the server is. A user without the right to do so is a user all the same. @param {string} name */
  async #introduce(name) {
    const call = (/** @type {string[]} */ ...args) =>
      this.call(args).catch((error) => {
        if (error.code === 'ERR' || error.code === 'NOPERM') return undefined;
        throw error;
      });
    const [id, info, slots] = await Promise.all([
      call('CLIENT', 'ID'),
      call('INFO', 'server'),
      call('CLUSTER', 'SLOTS'),
      call('CLIENT', 'SETNAME', name.replace(/[^!-~]/g, '_')),
      call('CLIENT', 'SETINFO', 'lib-name', 'delayd-node'),
      call('CLIENT', 'SETINFO', 'lib-ver', VERSION),
    ]);
    this.id = id;
    this.slots = slots;
    const version = info === undefined ? LEAST_SERVER : /^delayd_version:(\S+)/m.exec(String(info))?.[1];
    if (!version) throw new DelaydError('the server is not delayd: its INFO has no delayd_version', 'ERR');
    if (version.localeCompare(LEAST_SERVER, 'en', { numeric: true }) < 0) {
      throw new DelaydError(`the server is delayd ${version}; this library needs ${LEAST_SERVER} or later`, 'ERR');
    }
  }

  /**
   * Sends a command. Fails with the server's error, or as soon as the connection is lost.
   * @param {any[]} args
   * @param {number} [waits] how long the command itself waits, in ms
   * @returns {Promise<any>}
   */
  call(args, waits = 0) {
    return this.lost ? Promise.reject(this.lost) : this.#within(waits + PATIENCE_MS, () => this.#adapter.send(args), args[0]);
  }

  /** @param {number} ms @param {() => Promise<any>} begin @param {string} what @returns {Promise<any>} */
  #within(ms, begin, what) {
    return new Promise((resolve, reject) => {
      const silent = () => this.close(connectionError(`no reply to ${what} within ${ms} ms`));
      const call = { reject, timer: setTimeout(() => (call.timer = setTimeout(silent, SECOND_LOOK_MS)), ms) };
      this.#pending.add(call);
      const over = () => {
        clearTimeout(call.timer);
        this.#pending.delete(call);
        if (this.lost && this.#pending.size === 0) this.#end();
      };
      begin().then(
        (reply) => (over(), resolve(reply)),
        (cause) => {
          const error = asDelaydError(cause);
          if (error.code === 'CONNECTION') this.close(error);
          else if (anotherLeads(error)) this.#retire(error);
          over();
          reject(error);
        },
      );
    });
  }

  /** Ends it: what waits for a reply fails. @param {DelaydError} reason */
  close(reason) {
    this.#retire(reason);
    for (const { reject, timer } of this.#pending) (clearTimeout(timer), reject(reason));
    this.#pending.clear();
    this.#end();
  }

  /** Sends nothing more, and ends once everything is answered: only the replies say what was done. @param {DelaydError} reason */
  #retire(reason) {
    if (this.lost) return;
    this.lost = reason;
    this.onLost();
  }

  #end() {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#adapter.close();
  }
}

/** Waits a random time below 0.1 s, doubled each time up to the limit, so that many clients do not come back at once. */
export class Backoff {
  #most_ms = BACKOFF_MS.first;
  #limit_ms;
  constructor(limit_ms = BACKOFF_MS.limit) {
    this.#limit_ms = limit_ms;
  }
  reset() {
    this.#most_ms = BACKOFF_MS.first;
  }
  /** @param {AbortSignal} signal ends the wait */
  async wait(signal) {
    const ms = Math.random() * this.#most_ms;
    this.#most_ms = Math.min(this.#most_ms * 2, this.#limit_ms);
    await sleep(ms, undefined, { signal }).catch(() => {});
  }
}

/** A connection to the server for a slot that is opened when it is needed, and after a loss again, to the one that leads then. */
export class Link {
  /** The open one. @type {Connection | undefined} */
  current;
  #opening;
  #failed = false;
  #wasOpen = false;
  #closed = new AbortController();
  #backoff;
  #partitions;
  #name;
  #log;

  /**
   * @param {import('./partitions.js').Partitions} partitions @param {number} slot @param {string} name
   * @param {(text: string) => void} log @param {number} [backoffLimit_ms]
   */
  constructor(partitions, slot, name, log, backoffLimit_ms) {
    [this.#partitions, this.slot] = [partitions, slot];
    [this.#name, this.#log, this.#backoff] = [name, log, new Backoff(backoffLimit_ms)];
  }

  get signal() {
    return this.#closed.signal;
  }

  /** The open connection; opens one until that succeeds or the time is over. @param {number} [deadline] @returns {Promise<Connection>} */
  async get(deadline = Infinity) {
    for (;;) {
      if (this.current) return this.current;
      if (this.signal.aborted) throw connectionError('closed');
      try {
        return await (this.#opening ??= this.#open().finally(() => (this.#opening = undefined)));
      } catch (error) {
        if (!passes(error) || now() >= deadline) throw error;
      }
    }
  }

  async #open() {
    if (this.#failed) await this.#backoff.wait(this.signal);
    if (this.#failed || this.#wasOpen) await this.#partitions.seek(this.slot);
    this.#failed = true;
    try {
      const connection = await this.#partitions.open(this.slot, this.#name);
      this.#wasOpen = true;
      connection.onLost = () => {
        this.current = undefined;
        if (!this.signal.aborted) this.#log(`connection lost: ${connection.lost?.message}`);
      };
      if (this.signal.aborted) connection.close(connectionError('closed'));
      else this.current = connection;
      this.#failed = false;
      this.#backoff.reset();
      return connection;
    } catch (error) {
      if (!this.signal.aborted) this.#log(`not connected: ${asDelaydError(error).message}`);
      throw error;
    }
  }

  close() {
    this.#closed.abort();
    this.current?.close(connectionError('closed'));
  }
}
