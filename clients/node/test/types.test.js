// The examples and the types that are shipped agree, and the types name what the library has.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import * as delayd from 'delayd';

import { assert } from './support.js';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const require = createRequire(import.meta.url);
const installed = (name) => existsSync(join(ROOT, 'node_modules', name));
/** An example for the client that is not installed here. */
const elsewhere = (file) => (file === 'ioredis.ts' && !installed('ioredis')) || (file === 'node-redis.ts' && !installed('redis'));

test('the examples are right by the types', () => {
  const files = readdirSync(join(ROOT, 'examples')).filter((file) => file.endsWith('.ts') && !elsewhere(file));
  assert.equal(files.length, 3);
  const options = ['--noEmit', '--strict', '--target', 'es2022', '--lib', 'es2022,esnext.disposable', '--module', 'nodenext', '--types', 'node'];
  const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
  try {
    execFileSync(process.execPath, [tsc, ...options, ...files], { cwd: join(ROOT, 'examples'), encoding: 'utf8' });
  } catch (error) {
    assert.fail(error.stdout || error.message);
  }
});

test('the types name what the library exports, and the members of its classes', () => {
  const types = readFileSync(join(ROOT, 'node_modules', 'delayd', 'lib', 'index.d.ts'), 'utf8');
  const named = [...types.matchAll(/^export (?:class|const|function) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual([...named, 'startDelayd'].sort(), Object.keys(delayd).sort());
  for (const name of ['Queue', 'Worker']) {
    const [, body] = new RegExp(`^export class ${name}<.*\\{\n([^]*?)^\\}`, 'm').exec(types);
    const members = new Set([...body.matchAll(/^ {2}(?:readonly )?(\w+)[<(:?]/gm)].map(([, member]) => member));
    const real = Object.getOwnPropertyNames(delayd[name].prototype);
    assert.deepEqual([...real].filter((member) => !members.has(member)), []);
    const inherited = ['on', 'once', 'off', 'name', 'counters'];
    assert.deepEqual([...members].filter((member) => !real.includes(member) && !inherited.includes(member)), []);
  }
});
