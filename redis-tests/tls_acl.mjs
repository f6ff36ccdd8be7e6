// TLS and users with node-redis and ioredis: URLs, certificates on both sides, refusals, permissions.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Redis from 'ioredis';
import { createClient } from 'redis';
import { assert, check, finish, freePort, host, needs, port, Server, Skip } from './lib/harness.mjs';

/** Skips the check where there is no TLS. */
async function needsTls() {
  const client = createClient({ url: `redis://${host}:${port}` });
  await client.connect();
  const found = await client.configGet('tls-port');
  client.destroy();
  if (!('tls-port' in found)) throw new Skip('this server has no tls-port');
}

const folder = mkdtempSync(join(tmpdir(), 'delayd-tls-'));
const path = (name) => join(folder, name);
const file = (name) => readFileSync(path(name));
const identity = (name) => ({ cert: file(`${name}.crt`), key: file(`${name}.key`) });

/** A server with a plain and a TLS port; the latter in `tls`. */
async function tlsServer(...flags) {
  const port = await freePort();
  const files = ['--tls-cert-file', path('server.crt'), '--tls-key-file', path('server.key')];
  const server = await Server.start('--tls-port', port, ...files, '--tls-ca-cert-file', path('ca.crt'), ...flags);
  return Object.assign(server, { tls: port });
}

/** Tries once: a refusal is to be seen, not waited for. */
async function connect(url, options = {}) {
  const { socket = {}, ...rest } = options;
  const client = createClient({ url, socket: { reconnectStrategy: false, ...socket }, ...rest });
  client.on('error', () => {});
  await client.connect();
  await client.ping(); // with TLS 1.3 a client learns of its refused certificate with the first reply
  return client;
}

async function ioredis(port, options) {
  const client = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0, ...options });
  client.on('error', () => {});
  await client.connect();
  await client.ping();
  return client;
}

async function works(client, call) {
  const due = Date.now() + 60;
  assert.equal(await call('DELAY.ADD', 'q', `@${due}`, 'x', 'ID', 'a'), 'a');
  assert.deepEqual(await call('DELAY.POP', 'q', '3'), ['q', 'a', 'x']);
  assert(Date.now() >= due);
}

await check('node-redis: rediss://, with a password in the URL and without one; an unknown authority', async () => {
  await needsTls();
  execFileSync(new URL('./lib/certificates', import.meta.url).pathname, [folder]);
  const server = await tlsServer('--tls-auth-clients', 'no', '--requirepass', 's3cret');
  const ca = file('ca.crt');
  try {
    const client = await connect(`rediss://:s3cret@localhost:${server.tls}`, { socket: { ca } });
    await works(client, (...words) => client.sendCommand(words));
    client.destroy();
    await assert.rejects(connect(`rediss://localhost:${server.tls}`, { socket: { ca } }), /NOAUTH/);
    await assert.rejects(connect(`rediss://:wrong@localhost:${server.tls}`, { socket: { ca } }), /WRONGPASS/);
    await assert.rejects(connect(`rediss://:s3cret@localhost:${server.tls}`), /certificate|self.signed/i);
    const plain = await connect(`redis://:s3cret@127.0.0.1:${server.port}`);
    plain.destroy();
  } finally {
    await server.end();
  }
});

await check('ioredis and node-redis: client certificates required, a stranger refused', async () => {
  await needsTls();
  const server = await tlsServer('--tls-auth-clients', 'yes');
  const ca = file('ca.crt');
  const url = `rediss://localhost:${server.tls}`;
  try {
    const one = await ioredis(server.tls, { tls: { ca, ...identity('client') } });
    await works(one, (...words) => one.call(...words));
    one.disconnect();
    const two = await connect(url, { socket: { ca, ...identity('client') } });
    await works(two, (...words) => two.sendCommand(words));
    two.destroy();
    await assert.rejects(ioredis(server.tls, { tls: { ca } }));
    await assert.rejects(ioredis(server.tls, { tls: { ca, ...identity('stranger') } }));
    await assert.rejects(connect(url, { socket: { ca } }));
    await assert.rejects(connect(url, { socket: { ca, ...identity('stranger') } }));
    const still = await ioredis(server.tls, { tls: { ca, ...identity('client') } });
    still.disconnect();
  } finally {
    await server.end();
  }
});

await check('a user of +@delay -@admin ~orders:*: its own queues, nothing else', async () => {
  await needs('ACL|SETUSER');
  const server = await Server.start('--requirepass', 's3cret');
  try {
    const admin = await connect(`redis://:s3cret@127.0.0.1:${server.port}`);
    await admin.aclSetUser('orders', ['on', '>worker', '~orders:*', '+@delay', '+ping', '-@admin']);
    const mine = await connect(`redis://orders:worker@127.0.0.1:${server.port}`);
    assert.equal(await mine.sendCommand(['DELAY.ADD', 'orders:1', '0', 'x', 'ID', 'a']), 'a');
    const refusals = [['DELAY.ADD', 'mail:1', '0', 'x'], ['CONFIG', 'GET', '*'], ['FLUSHALL'], ['DELAY.POP', 'mail:1', 'NOWAIT']];
    for (const words of refusals) await assert.rejects(mine.sendCommand(words), /NOPERM/);
    const other = await ioredis(server.port, { username: 'orders', password: 'worker', enableReadyCheck: false });
    assert.deepEqual(await other.call('DELAY.POP', 'orders:1', '1'), ['orders:1', 'a', 'x']);
    await assert.rejects(other.call('KEYS', '*'), /NOPERM/);
    await assert.rejects(connect(`redis://orders:wrong@127.0.0.1:${server.port}`), /WRONGPASS/);
    for (const client of [admin, mine]) client.destroy();
    other.disconnect();
  } finally {
    await server.end();
  }
});

rmSync(folder, { recursive: true });
finish();
