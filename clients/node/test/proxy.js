// A proxy in front of a server that cuts, stalls, delays or answers by itself.

import { once } from 'node:events';
import net from 'node:net';

import { parse, sleep } from './support.js';

export class Proxy {
  /** What was carried, for each connection in the order in which they came: bytes `up` to the server and `down` to the client. */
  carried = [];
  /** `{ connection, way, after }`: cut that connection after so many bytes that way, once. */
  cut = undefined;
  /** Milliseconds that a piece is late: a function of the connection's number and the way. */
  late = () => 0;
  /** Ways that carry nothing: a function of the connection's number and the way. */
  stalls = () => false;
  /** A function of a command's words that answers with bytes instead of the server, or undefined. */
  answers = undefined;
  #sockets = new Set();

  static async start(port) {
    const proxy = new Proxy();
    proxy.port = port;
    proxy.server = net.createServer((client) => proxy.#accept(client)).listen(0, '127.0.0.1');
    await once(proxy.server, 'listening');
    return proxy;
  }

  get url() {
    return `redis://127.0.0.1:${this.server.address().port}`;
  }

  end() {
    this.server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(client) {
    const number = this.carried.push({ up: 0, down: 0 }) - 1;
    const server = net.connect(this.port, '127.0.0.1');
    for (const socket of [client, server]) {
      this.#sockets.add(socket.setNoDelay(true));
      socket.on('error', () => {});
      socket.on('close', () => (this.#sockets.delete(socket), client.destroy(), server.destroy()));
    }
    if (this.answers) return this.#interpose(client, server);
    client.on('data', (bytes) => this.#carry(number, 'up', bytes, client, server));
    server.on('data', (bytes) => this.#carry(number, 'down', bytes, server, client));
  }

  async #carry(number, way, bytes, from, to) {
    if (this.stalls(number, way)) return;
    const late_ms = this.late(number, way);
    if (late_ms) await sleep(late_ms);
    const { cut } = this;
    if (cut?.connection === number && cut.way === way) {
      const room = cut.after - this.carried[number][way];
      if (bytes.length >= room) {
        this.cut = undefined;
        // What was written before still arrives.
        if (room > 0) to.end(bytes.subarray(0, room));
        else to.end();
        from.destroy();
        return;
      }
    }
    this.carried[number][way] += bytes.length;
    to.write(bytes);
  }

  /** Replies leave in the order of the commands, be they the server's or not. */
  #interpose(client, server) {
    const order = [];
    const inTurn = () => {
      while (order[0]?.bytes) client.write(order.shift().bytes);
    };
    each(client, (bytes, words) => {
      const answer = this.answers(words);
      order.push({ bytes: answer && Buffer.from(answer) });
      if (!answer) server.write(bytes);
      inTurn();
    });
    each(server, (bytes) => {
      order[0].bytes = bytes;
      inTurn();
    });
  }
}

/** Calls back with each whole message that arrives. */
function each(socket, heard) {
  let kept = Buffer.alloc(0);
  socket.on('data', (data) => {
    kept = Buffer.concat([kept, data]);
    for (let found; (found = parse(kept, 0)); ) {
      const bytes = kept.subarray(0, found.next);
      kept = kept.subarray(found.next);
      heard(bytes, found.value);
    }
  });
}
