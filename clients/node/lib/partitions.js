// Which server answers for a queue: the one that was given or, of a server with partitions, the leader of the queue's.

import { Connection, Link } from './connection.js';
import { asDelaydError, connectionError } from './errors.js';
import { now } from './time.js';

const SLOTS = 16_384;
const HOPS_MAX = 3;
/** How long a node may take to say which nodes lead. */
const ASK_MS = 1_000;
/** Within this time an answer is not asked for again. */
const FRESH_MS = 50;

/** CRC16 of XMODEM, as Redis Cluster uses it. */
const CRC = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

/** The hash slot of a queue: of the part of its name in braces, if there is one. @param {any} queue */
export function slotOf(queue) {
  const name = Buffer.from(queue instanceof Uint8Array ? queue : String(queue));
  const open = name.indexOf('{');
  const close = open < 0 ? -1 : name.indexOf('}', open);
  const hashed = close > open + 1 ? name.subarray(open + 1, close) : name;
  return hashed.reduce((crc, byte) => ((crc << 8) & 0xffff) ^ CRC[(crc >> 8) ^ byte], 0) % SLOTS;
}

/** Whether another address can take the place of this one, which Sentinels and Unix sockets do not have. @param {any} spec */
function canMove(spec) {
  if (typeof spec === 'string') return /^rediss?:/.test(spec);
  const { sentinels, path, socket } = spec.options ?? spec;
  return !sentinels && !path && !socket?.path;
}

/** @typedef {{ spec: any, address?: { host?: string, port: number }, failed: number }} Node */

/** Learns from CLUSTER SLOTS, which each connection asks when it is opened. Without partitions all slots are in one. */
export class Partitions {
  /** Whether other nodes are gone to. */
  isSpread = false;
  #hasSlots = false;
  /** The first slots of the partitions, and their nodes, the leader first. @type {number[]} */
  #starts = [0];
  /** @type {Node[][]} */
  #nodes;
  /** @type {Node[]} */
  #given;
  /** @type {Map<string, Node>} */
  #byAddress = new Map();
  #asked = -Infinity;
  /** @type {Promise<void> | undefined} */
  #seeking;

  /** @param {any} connection one that was given, or several */
  constructor(connection) {
    this.#given = [connection].flat().map((spec) => ({ spec: spec instanceof URL ? spec.href : spec, failed: 0 }));
    this.#nodes = [this.#given];
  }

  /** @param {number} slot */
  partition(slot) {
    // Of a partition that is just starting there may be no row: any other one names its leader by MOVED.
    return Math.max(0, this.#starts.findLastIndex((start) => start <= slot));
  }

  /** Queues that one command may name, in their order. @param {string[]} queues @returns {string[][]} */
  bySlot(queues) {
    const found = new Map();
    for (const queue of queues) {
      const slot = this.#hasSlots ? slotOf(queue) : 0;
      found.set(slot, [...(found.get(slot) ?? []), queue]);
    }
    return [...found.values()];
  }

  /** Opens a connection to the server for a slot. @param {number} slot @param {string} name */
  async open(slot, name) {
    for (let hops = 0; hops < HOPS_MAX; hops++) {
      const node = this.#leader(slot);
      const connection = await this.#openTo(node, name);
      if (this.#leader(slot) === node) return connection;
      connection.close(connectionError('another node leads'));
    }
    throw connectionError('the nodes disagree about the leader');
  }

  /** Asks the other nodes which of them lead, after the one for this slot has failed or does not lead any more. @param {number} slot */
  async seek(slot) {
    const lost = this.#leader(slot);
    lost.failed = now();
    this.#given.sort((a, b) => a.failed - b.failed);
    if (this.isSpread && now() > this.#asked + FRESH_MS) await (this.#seeking ??= this.#ask().finally(() => (this.#seeking = undefined)));
  }

  async #ask() {
    const nodes = [...new Set([...this.#nodes.flat(), ...this.#given])].sort((a, b) => a.failed - b.failed);
    for (const node of nodes) {
      try {
        (await this.#openTo(node, 'seeks-the-leader', ASK_MS)).close(connectionError('answered'));
        this.#asked = now();
        return;
      } catch (error) {
        if (asDelaydError(error).code !== 'CONNECTION') return;
      }
    }
  }

  /** @param {Node} node @param {string} name @param {number} [patience_ms] */
  async #openTo(node, name, patience_ms) {
    try {
      const connection = await Connection.open(node.spec, node.address, name, patience_ms);
      this.#learn(connection.slots, node);
      return connection;
    } catch (error) {
      node.failed = now();
      throw error;
    }
  }

  /** @param {number} slot */
  #leader(slot) {
    return this.#nodes[this.partition(slot)][0];
  }

  /** @param {any} slots what CLUSTER SLOTS answered @param {Node} asked */
  #learn(slots, asked) {
    if (!slots?.length) return;
    this.#hasSlots = true;
    if (!canMove(asked.spec)) return;
    const rows = slots.toSorted((/** @type {any} */ a, /** @type {any} */ b) => a[0] - b[0]);
    this.#starts = rows.map(([start]) => start);
    this.#nodes = rows.map(([, , ...nodes]) => nodes.map((/** @type {any} */ each) => this.#node(each, asked)));
    this.isSpread = true;
  }

  /** @param {any[]} row @param {Node} asked @returns {Node} */
  #node([name, port], asked) {
    const host = String(name ?? '') || asked.address?.host;
    const key = `${host}:${port}`;
    const node = this.#byAddress.get(key) ?? { spec: asked.spec, address: { ...(host && { host }), port }, failed: 0 };
    this.#byAddress.set(key, node);
    return node;
  }
}

/** A connection to each partition that is needed. */
export class Links {
  /** @type {Link[]} */
  all = [];
  #make;
  #partitions;

  /** @param {Partitions} partitions @param {string} name @param {(text: string) => void} log @param {number} [backoffLimit_ms] */
  constructor(partitions, name, log, backoffLimit_ms) {
    this.#partitions = partitions;
    this.#make = (/** @type {number} */ slot) => new Link(partitions, slot, name, log, backoffLimit_ms);
  }

  /** @param {any} queue */
  of(queue) {
    return !this.#partitions.isSpread && this.all.length > 0 ? this.all[0] : this.at(slotOf(queue));
  }

  /** @param {number} slot @returns {Link} */
  at(slot) {
    const partition = this.#partitions.partition(slot);
    const found = this.all.find((link) => this.#partitions.partition(link.slot) === partition);
    if (found) return found;
    const link = this.#make(slot);
    this.all.push(link);
    return link;
  }

  close() {
    for (const link of this.all) link.close();
  }
}
