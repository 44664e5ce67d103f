/**
 * Checks that the production build stays small: everybody who opens Lab loads its start, and a page
 * (`webpackChunkName: "page-…"`) comes when it is first opened.
 * Run by `npm run size` after `npm run build:prod`.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = 'build/labextensions/gpucommons/static';
/** Which files each page brings, as the build wrote it. */
const CHUNKS = 'build/chunks.json';
/** 1 KB = 1000 bytes. */
const START_KB = 80;
const CHUNK_KB = 60;
const ALL_KB = 250;

const names = readdirSync(FOLDER);
if (names.some(name => name.endsWith('.map'))) {
  console.error('This is a development build: run `npm run build:prod` first.');
  process.exit(2);
}
const kilobytes = files =>
  files
    .filter(name => name.endsWith('.js'))
    .map(name => statSync(join(FOLDER, name)).size)
    .reduce((sum, size) => sum + size, 0) / 1000;

const chunks = Object.entries(JSON.parse(readFileSync(CHUNKS, 'utf8')));
const isPage = ([name]) => name.startsWith('page-');
const atStart = new Set(
  chunks.filter(each => !isPage(each)).flatMap(([, files]) => files)
);
// What no page names is loaded without one.
const ofPages = new Set(
  chunks
    .filter(isPage)
    .flatMap(([, files]) => files)
    .filter(name => !atStart.has(name))
);
const measured = [
  ['start', kilobytes(names.filter(name => !ofPages.has(name))), START_KB],
  ...[...ofPages].map(name => [name, kilobytes([name]), CHUNK_KB]),
  ['all', kilobytes(names), ALL_KB]
];
for (const [what, size, limit] of measured) {
  console.log(`${what}: ${size.toFixed(1)} KB of ${limit} KB JavaScript`);
}
process.exit(measured.every(([, size, limit]) => size <= limit) ? 0 : 1);
