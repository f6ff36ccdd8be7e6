// A job as its handler sees it.

/** How a body is turned into bytes and back. Bytes are sent as they are; an empty body is null. */
export const json = {
  /** @param {any} body */
  encode: (body) => (body instanceof Uint8Array ? Buffer.from(body) : body === undefined ? '' : JSON.stringify(body)),
  /** @param {Buffer} bytes */
  decode: (bytes) => (bytes.length === 0 ? null : JSON.parse(utf8.decode(bytes))),
};
/** The body as its codec writes it. @param {any} codec @param {any} body */
export function encoded(codec, body) {
  const written = codec.encode(body);
  if (typeof written === 'string' || written instanceof Uint8Array) return written;
  throw new TypeError(`the codec makes no bytes of a body that is a ${typeof body}`);
}
/** For bodies that are no JSON: handlers are given a Buffer. */
export const bytes = { encode: json.encode, decode: (/** @type {Buffer} */ bytes) => bytes };

const utf8 = new TextDecoder('utf-8', { fatal: true });
const exact = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A name as a string; as bytes if it is no UTF-8, so that it can be sent back. @param {Buffer} bytes */
export function name(bytes) {
  const text = bytes.toString();
  return text.includes('\ufffd') ? bytes : text;
}

/** META as RESP2 shows it: texts, and bytes if a value is not UTF-8; names that are not are read as Latin-1. @param {Buffer[]} flat */
export function metaOf(flat) {
  const pairs = [];
  for (let at = 0; at < flat.length; at += 2) {
    const name = textOf(flat[at]);
    pairs.push([typeof name === 'string' ? name : name.latin1Slice(), textOf(flat[at + 1])]);
  }
  return Object.fromEntries(pairs);
}

/** @param {Buffer} bytes */
function textOf(bytes) {
  try {
    return exact.decode(bytes);
  } catch {
    return bytes;
  }
}

export class Job {
  #meta;
  #abort;
  #reason;
  /** The body, decoded. @type {any} */
  body;
  /** Its lease ended before its handler did: another worker has it, or will. */
  lost = false;
  /** Its outcome is known, so its lease is not extended any more. */
  isOver = false;
  /** When its lease ends, by the worker's clock. */
  deadline;

  /** @param {any[]} reply an element of what DELAY.RESERVE answers @param {number} deadline */
  constructor(reply, deadline) {
    [this.rawQueue, this.rawId, this.raw] = [name(reply[0]), name(reply[1]), reply[2]];
    this.id = String(this.rawId);
    this.queue = String(this.rawQueue);
    this.token = reply[3].latin1Slice();
    /** 1 at the first delivery. */
    this.attempt = reply[4];
    /** Unix ms. */
    this.due = reply[5];
    /** How long after its due time it reached the worker, in ms, by both wall clocks. */
    this.lateness = Date.now() - reply[5];
    /** The name of its group, null without one. */
    this.group = reply[7] && name(reply[7]);
    this.#meta = reply[8];
    this.deadline = deadline;
  }

  /** The headers of the job. */
  get meta() {
    return metaOf(this.#meta);
  }

  /** Aborts when the lease is lost, the timeout is over, or the worker gives the job back. @returns {AbortSignal} */
  get signal() {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#reason) this.#abort.abort(this.#reason);
    }
    return this.#abort.signal;
  }

  /** @param {Error} reason */
  cancel(reason) {
    this.#reason = reason;
    this.isOver = true;
    this.#abort?.abort(reason);
  }

  /** What names it to the server. */
  get key() {
    return [this.rawQueue, this.rawId, this.token];
  }

  toString() {
    return `job ${this.id} of queue ${this.queue}`;
  }
}
