import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const PLATFORMS = ['linux-x64', 'linux-arm64'];

/**
 * The path of the delayd program: what `DELAYD_BINARY` names, or what the package of this platform holds.
 * @returns {string}
 */
export function findDelayd() {
  const named = process.env.DELAYD_BINARY;
  if (named) {
    if (!existsSync(named) || !statSync(named).isFile()) {
      throw new Error(`DELAYD_BINARY is '${named}', which is not a file.`);
    }
    return named;
  }
  const platform = `${process.platform}-${process.arch}`;
  if (!PLATFORMS.includes(platform)) {
    throw new Error(
      `The delayd server runs on Linux (x64, arm64), not on ${platform}: start it in Docker ` +
        '(docker run --rm -p 127.0.0.1:9248:9248 delayd), or name a program in DELAYD_BINARY.',
    );
  }
  try {
    return require.resolve(`@delayd/${platform}/bin/delayd`);
  } catch {
    throw new Error(
      `@delayd/${platform}, which holds the program, is not installed: optional dependencies were left out ` +
        '(npm install --include=optional), or the lock file was written on another platform ' +
        '(remove node_modules and package-lock.json, then npm install).',
    );
  }
}
