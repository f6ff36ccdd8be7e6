// Servers for tests are ready, apart from each other, and leave nothing behind. Programs that start one pass signals on.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findDelayd } from '../lib/program.js';
import { startDelayd } from '../lib/server.js';

const PATIENCE_MS = 60_000;
const WRAPPER = fileURLToPath(new URL('../bin/delayd.js', import.meta.url));
const SERVER = new URL('../lib/server.js', import.meta.url).href;
const scratch = mkdtempSync(join(tmpdir(), 'delayd-test-'));
after(() => rmSync(scratch, { recursive: true }));

/** The first line of the reply to a command of words without blanks. */
async function ask(port, command) {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8');
  socket.write(command + '\r\n');
  const [reply] = await once(socket, 'data');
  socket.destroy();
  return reply.split('\r\n')[0];
}

async function until(holds, what) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, what);
    await sleep(10);
  }
}

function runs(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A file in the scratch folder. */
function file(name, content, mode) {
  const path = join(scratch, name);
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

function withBinary(path, work) {
  const before = process.env.DELAYD_BINARY;
  process.env.DELAYD_BINARY = path;
  try {
    return work();
  } finally {
    if (before === undefined) delete process.env.DELAYD_BINARY;
    else process.env.DELAYD_BINARY = before;
  }
}

describe('startDelayd', { timeout: 2 * PATIENCE_MS }, () => {
  it('answers when it is there, and is gone after stop', async () => {
    const server = await startDelayd();
    assert.equal(server.url, `redis://127.0.0.1:${server.port}`);
    assert.equal(await ask(server.port, 'DELAY.ADD orders 1h body ID order:7'), '$7');
    assert.match(server.log(), new RegExp(`listens on 127.0.0.1:${server.port}`));
    await Promise.all([server.stop(), server[Symbol.asyncDispose]()]);
    assert.ok(!runs(server.pid));
    assert.match(server.log(), /stopped/);
  });

  it('gives twenty servers twenty ports', async () => {
    const began = Date.now();
    const servers = await Promise.all(Array.from({ length: 20 }, () => startDelayd()));
    console.log(`20 servers in ${Date.now() - began} ms`);
    assert.equal(new Set(servers.map((server) => server.port)).size, 20);
    for (const server of servers) assert.equal(await ask(server.port, 'PING'), '+PONG');
    await Promise.all(servers.map((server) => server.stop()));
  });

  it('takes options in either spelling', async () => {
    const server = await startDelayd({ options: { maxLease: '1m', 'max-delay': '2h', replica_serve_stale_data: false } });
    for (const command of ['CONFIG GET max-lease', 'CONFIG GET max-delay', 'CONFIG GET replica-serve-stale-data']) {
      assert.equal(await ask(server.port, command), '*2');
    }
    await server.stop();
    await assert.rejects(startDelayd({ options: { maxMemory: '1gb' } }), /unknown option 'max-memory'; did you mean 'maxmemory'/);
    await assert.rejects(startDelayd({ memory: true, dir: scratch }), TypeError);
  });

  it('keeps a folder that is given, and removes its own', async () => {
    const dir = mkdtempSync(join(scratch, 'dir-'));
    for (const length of [':0', ':1']) {
      const server = await startDelayd({ dir });
      assert.equal(await ask(server.port, 'DELAY.LEN orders'), length);
      await ask(server.port, 'DELAY.ADD orders 1h body');
      await server.stop();
    }
    assert.deepEqual(readdirSync(dir), ['journal']);
  });

  it('says why a program cannot be run', async () => {
    const broken = file('broken', '', 0o644);
    await withBinary(broken, () => assert.rejects(startDelayd({ memory: false }), /cannot be run/));
  });

  for (const end of ['SIGTERM', 'SIGINT', 'SIGKILL', 'exit']) {
    it(`leaves neither server nor folder when its owner ends by ${end}`, async () => {
      const script = `
        import { startDelayd } from '${SERVER}';
        const server = await startDelayd({ memory: false });
        console.log(server.pid);
        ${end === 'exit' ? 'process.exit(3)' : 'process.stdin.resume()'};`;
      const home = mkdtempSync(join(scratch, 'tmp-'));
      const owner = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['pipe', 'pipe', 'inherit'],
        env: { ...process.env, TMPDIR: home },
      });
      const [pid] = await once(createInterface(owner.stdout), 'line');
      if (end !== 'exit') {
        assert.equal(readdirSync(home).length, 1);
        owner.kill(end);
      }
      await until(() => !runs(Number(pid)) && readdirSync(home).length === 0, `${pid} or its folder is left`);
    });
  }

  it('does not keep its owner running', async () => {
    const script = `import { startDelayd } from '${SERVER}'; console.log((await startDelayd()).pid);`;
    const done = spawnSync(process.execPath, ['--input-type=module', '-e', script], { timeout: PATIENCE_MS, encoding: 'utf8' });
    assert.equal(done.status, 0, done.stderr);
    await until(() => !runs(Number(done.stdout)), 'the server is left');
  });
});

describe('the command delayd', { timeout: 2 * PATIENCE_MS }, () => {
  const run = (binary, ...words) =>
    spawnSync(process.execPath, [WRAPPER, ...words], { env: { ...process.env, DELAYD_BINARY: binary }, encoding: 'utf8' });

  it('passes words, output and the exit status on', () => {
    const shown = file('shown', '#!/bin/sh\nprintf "%s|" "$@"; cat; echo no >&2; exit 7\n', 0o755);
    const done = spawnSync(process.execPath, [WRAPPER, 'demo', '', 'a b'], {
      env: { ...process.env, DELAYD_BINARY: shown },
      input: 'in',
      encoding: 'utf8',
    });
    assert.deepEqual([done.stdout, done.stderr, done.status], ['demo||a b|in', 'no\n', 7]);
  });

  it('ends by the signal that ended the program', () => {
    const killed = file('killed', '#!/bin/sh\nkill -KILL $$\n', 0o755);
    assert.equal(run(killed).signal, 'SIGKILL');
  });

  for (const signal of ['SIGTERM', 'SIGINT']) {
    it(`lets the server stop in order at ${signal}`, async () => {
      const wrapper = spawn(process.execPath, [WRAPPER, '--port', '0', '--appendonly', 'no'], { stdio: ['ignore', 'inherit', 'pipe'] });
      let log = '';
      wrapper.stderr.setEncoding('utf8').on('data', (text) => (log += text));
      await until(() => / pid \d+/.test(log), 'no server');
      wrapper.kill(signal);
      const [code, by] = await once(wrapper, 'exit');
      assert.deepEqual([code, by], [0, null]);
      assert.ok(!runs(Number(log.match(/ pid (\d+)/)[1])));
      assert.match(log, /stopped/);
    });
  }

  it('stops in order when the shell of npx ends by SIGTERM', async () => {
    const start = `'${process.execPath}' '${WRAPPER}' --port 0 --appendonly no; exit $?`;
    const shell = spawn('/bin/sh', ['-c', start], { stdio: ['ignore', 'inherit', 'pipe'], env: { ...process.env, npm_lifecycle_event: 'npx' } });
    let log = '';
    shell.stderr.setEncoding('utf8').on('data', (text) => (log += text));
    await until(() => / pid \d+/.test(log), 'no server');
    const server = Number(log.match(/ pid (\d+)/)[1]);
    shell.kill('SIGTERM');
    try {
      await until(() => !runs(server), 'the server is left');
    } finally {
      if (runs(server)) process.kill(server, 'SIGKILL');
    }
    await until(() => /stopped/.test(log), log);
  });

  it('passes SIGHUP on', async () => {
    const listens = file('listens', "#!/bin/sh\ntrap 'exit 3' HUP\necho ready\nwhile :; do sleep 0.05; done\n", 0o755);
    const wrapper = spawn(process.execPath, [WRAPPER], { env: { ...process.env, DELAYD_BINARY: listens }, stdio: ['ignore', 'pipe', 'inherit'] });
    await once(wrapper.stdout, 'data');
    wrapper.kill('SIGHUP');
    assert.deepEqual(await once(wrapper, 'exit'), [3, null]);
  });

  it('passes a signal on that comes as soon as the program runs', async () => {
    const early = file('early', "#!/bin/sh\ntrap 'exit 3' HUP\nkill -HUP $PPID\nwhile :; do sleep 0.05; done\n", 0o755);
    // One in three came before a wrapper that listened for signals only after it had started the program.
    for (let run = 0; run < 20; run++) {
      const wrapper = spawn(process.execPath, [WRAPPER], { env: { ...process.env, DELAYD_BINARY: early }, stdio: 'ignore' });
      assert.deepEqual(await once(wrapper, 'exit'), [3, null]);
    }
  });

  it('says in one line why there is no program', () => {
    const missing = join(scratch, 'missing');
    assert.ok(!existsSync(missing));
    for (const binary of [missing, scratch]) {
      const done = run(binary);
      assert.equal(done.status, 1);
      assert.equal(done.stderr, `delayd: DELAYD_BINARY is '${binary}', which is not a file.\n`);
    }
    const done = run(file('not-executable', '', 0o644));
    assert.equal(done.status, 1);
    assert.match(done.stderr, /^delayd: spawn .*not-executable EACCES\n$/);
  });

  it('names the platform without a program', () => {
    const real = Object.getOwnPropertyDescriptor(process, 'platform');
    Object.defineProperty(process, 'platform', { ...real, value: 'darwin' });
    try {
      withBinary('', () => assert.throws(findDelayd, /runs on Linux \(x64, arm64\), not on darwin-.*docker run.*DELAYD_BINARY\.$/));
    } finally {
      Object.defineProperty(process, 'platform', real);
    }
  });
});
