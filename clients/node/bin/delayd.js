#!/usr/bin/env node
// Starts the program of this platform, and ends as it ends.
import { spawn } from 'node:child_process';
import { findDelayd } from '../lib/program.js';

function fail(error) {
  console.error(`delayd: ${error.message}`);
  process.exit(1);
}

let program;
try {
  program = findDelayd();
} catch (error) {
  fail(error);
}
// All this before the program starts: on a busy machine it writes its first line, and is sent the first signal, while
// spawn has not returned. What arrives in between is passed on after it.
let child;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
const shell = process.ppid;
child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.on('error', fail);
// npx starts a shell in between, which keeps SIGTERM to itself and ends by it.
if (process.env.npm_lifecycle_event === 'npx') {
  const watch = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(watch);
    child.kill('SIGTERM');
  }, 100);
}
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
