/**
 * Checks that the production build stays small: everybody who opens Lab loads it.
 * Run by `npm run size` after `npm run build:prod`.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = 'build/labextensions/gpucommons/static';
/** 1 KB = 1000 bytes. */
const LIMIT_KB = 80;

const files = readdirSync(FOLDER).filter(name => name.endsWith('.js'));
if (readdirSync(FOLDER).some(name => name.endsWith('.map'))) {
  console.error('This is a development build: run `npm run build:prod` first.');
  process.exit(2);
}
const bytes = files
  .map(name => statSync(join(FOLDER, name)).size)
  .reduce((sum, size) => sum + size, 0);
const kilobytes = bytes / 1000;
console.log(`bundle ${kilobytes.toFixed(1)} KB of ${LIMIT_KB} KB JavaScript`);
process.exit(kilobytes <= LIMIT_KB ? 0 : 1);
