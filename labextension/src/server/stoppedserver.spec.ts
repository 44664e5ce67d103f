import { expect, it } from 'vitest';

import { readStopped } from './stoppedserver';

it('reads what the hub says, as text', () => {
  const said = readStopped(
    `<p data-gpucommons="why"> Stopped at 14:02: idle 60 min. </p>
     <span data-gpucommons="kept">Saved <b>files</b>.</span>
     <a id="start" href="/hub/spawn/ada?next=%2Fuser">Start again</a>`
  );

  expect(said).toEqual({
    why: 'Stopped at 14:02: idle 60 min.',
    kept: ['Saved files.'],
    lost: [],
    again: '',
    startUrl: '/hub/spawn/ada?next=%2Fuser'
  });
});

it('takes the way of one press before the form', () => {
  const said = readStopped(
    `<a id="start" href="/hub/spawn/ada">Start</a>
     <a data-gpucommons="start" href="/hub/spawn/ada?opt-again=1">Start again on ½ GPU</a>`
  );

  expect(said.startUrl).toBe('/hub/spawn/ada?opt-again=1');
});

it.each([
  'https://elsewhere.example/',
  '//elsewhere.example/',
  '/\\elsewhere.example/',
  'javascript:alert(1)',
  ''
])('starts nothing at %s', href => {
  expect(readStopped(`<a id="start" href="${href}">x</a>`).startUrl).toBeNull();
});
