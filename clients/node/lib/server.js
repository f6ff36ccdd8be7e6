// A delayd server for tests and for trying things out: it ends with its owner, however that ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, mkdtempSync, openSync, readSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findDelayd } from './program.js';

// A long journal takes its time to load.
const START_MS = 60_000;
const STOP_MS = 15_000;

/**
 * Starts a server on a free port of the loopback, which answers by the time the promise resolves.
 * @param {import('./server.js').StartOptions} [start]
 * @returns {Promise<import('./server.js').DelaydServer>}
 */
export async function startDelayd({ dir, memory = dir === undefined, options = {} } = {}) {
  if (memory && dir !== undefined) throw new TypeError('dir is for a journal: leave out memory, or dir');
  const program = findDelayd();
  const log = openLog();
  const remover = memory || dir !== undefined ? undefined : removeAfterwards(temporary());
  const all = {
    port: 0,
    bind: '127.0.0.1',
    appendonly: !memory,
    // The default reserves 64 MB at a time.
    ...(memory ? {} : { 'journal-segment-size': '1mb', dir: dir ?? remover.folder }),
    ...options,
  };
  // The server ends when its standard input hangs up, which it does whichever way this process ends. A group of its own
  // keeps Ctrl-C from ending the server before the test.
  const child = spawn(program, [...commandLine(all), '--ready-fd', '3', '--until-stdin-closes', 'yes'], {
    stdio: ['pipe', log, log, 'pipe', ...(remover ? [remover.process.stdin] : [])],
    detached: true,
  });
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(`cannot be run: ${error.message}`));
    child.once('exit', (code, signal) => resolve(`ended ${signal ? `by ${signal}` : `with status ${code}`}`));
  });
  // From here on the server alone holds it open.
  remover?.process.stdin.destroy();
  const server = new Server(child, log, ended, remover);
  try {
    server.port = await readPort(child, ended);
    server.url = urlOf(server.port, all.requirepass);
  } catch (error) {
    await server.stop();
    throw new Error(`delayd ${error.message}\n${server.log()}`.trim());
  }
  child.unref();
  child.stdin.unref();
  return server;
}

class Server {
  #child;
  #log;
  #ended;
  #remover;
  #stopped;

  constructor(child, log, ended, remover) {
    this.#child = child;
    this.#log = log;
    this.#ended = ended;
    this.#remover = remover;
    this.pid = child.pid;
  }

  log() {
    return typeof this.#log === 'string' ? this.#log : readAll(this.#log);
  }

  stop() {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  [Symbol.asyncDispose]() {
    return this.stop();
  }

  async #stop() {
    this.#child.ref();
    this.#child.kill('SIGTERM');
    this.#child.stdin.destroy();
    const late = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS);
    await this.#ended;
    clearTimeout(late);
    await this.#remover?.ended();
    const log = this.#log;
    this.#log = readAll(log);
    closeSync(log);
  }
}

/** The port, which the server writes once it answers commands. */
async function readPort(child, ended) {
  const ready = child.stdio[3].setEncoding('latin1');
  let timer;
  const why = new Promise((resolve) => {
    timer = setTimeout(resolve, START_MS, `was not ready within ${START_MS / 1000} s`);
    // A server that ends closes it without a word.
    ready.once('close', () => resolve(ended));
  });
  try {
    const said = await Promise.race([once(ready, 'data').then(([text]) => ({ port: Number(text) })), why]);
    if (typeof said === 'string') throw new Error(said);
    return said.port;
  } finally {
    clearTimeout(timer);
    ready.destroy();
  }
}

function urlOf(port, password) {
  return `redis://${password ? `:${encodeURIComponent(password)}@` : ''}127.0.0.1:${port}`;
}

/** `{ maxLease: '1m', bind: ['127.0.0.1', '::1'], appendonly: false }` as words of a command line. */
function commandLine(options) {
  return Object.entries(options).flatMap(([name, value]) => {
    const option = '--' + name.replace(/[A-Z]/g, (letter) => '-' + letter.toLowerCase()).replaceAll('_', '-');
    const words = [value].flat().map((word) => (typeof word === 'boolean' ? (word ? 'yes' : 'no') : String(word)));
    return [option, ...words];
  });
}

const temporary = () => mkdtempSync(join(tmpdir(), 'delayd-'));

/** A file without a name: it goes with the last process that has it open. */
function openLog() {
  const folder = temporary();
  const path = join(folder, 'log');
  const log = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  rmdirSync(folder);
  return log;
}

function readAll(file) {
  const bytes = Buffer.alloc(fstatSync(file).size);
  return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, 0));
}

/**
 * Removes the folder once the standard input of this process hangs up: the server alone keeps that open, so the folder
 * goes with the server, also when the owner is killed.
 */
function removeAfterwards(folder) {
  const process = spawn('/bin/sh', ['-c', 'cat; rm -rf -- "$1"', 'sh', folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
  });
  const end = once(process, 'exit');
  process.unref();
  return { folder, process, ended: () => (process.ref(), end) };
}
