import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import type { ILease } from '../server/types';
import { makeLease, msg } from '../testing/make';
import { Parked } from './parked';

const NOW = 1_800_000_000_000;

function drawn(changes: Partial<ILease>, connection = 'ok'): string {
  const lease = makeLease({ slice: null, parked_ms: NOW, ...changes });
  const model = { connection, lease, clock: { now: () => NOW } };
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: { model, msg } as never },
      React.createElement(Parked, { lease })
    )
  );
}

it('says how to have the GPU back', () => {
  const html = drawn({ state: 'parked', milli_gpu: 500 });
  expect(html).toContain('Parked, ½ GPU');
  expect(html).toContain('Run a cell to have the GPU back.');
  expect(html).toContain('Variables are as they were.');
  expect(html).not.toContain('in line');
});

it('says where in line its cell waits, for how long, and why', () => {
  const html = drawn({
    state: 'waiting',
    milli_gpu: 500,
    position: 2,
    requested_ms: NOW - 180_000,
    forecast: { span: '10–25 min' },
    reason: { text: 'GPU 0 of n1 is lent.' }
  });
  expect(html).toContain('Parked: waits for ½ GPU');
  expect(html).toContain('2nd in line, waiting for 3 min.');
  expect(html).toContain('Likely in 10–25 min.');
  expect(html).toContain('GPU 0 of n1 is lent.');
  expect(html).toContain('Interrupt the kernel to wait no longer.');
});

it('offers to park, and says how far it is and what stood in the way', () => {
  const running = { state: 'active', parked_ms: null };
  expect(drawn(running)).toContain('>Park</button>');
  expect(drawn(running)).toContain('others have the GPU until a cell runs');
  const idle = { keeps_left: 0, idle_after_min: 60, warn_after_min: 50 };
  const tried = { ...idle, not_parked: 'its server says: It is busy.' };
  expect(drawn({ ...running, idle: tried })).toContain(
    'Not parked when it was tried: its server says: It is busy.<'
  );
  const now = drawn({ ...running, state: 'parking' });
  expect(now).toContain('Being parked: its GPU memory goes to the host.');
  expect(now).not.toContain('Park</button>');
});

it('does not say for how long before a second is over', () => {
  const html = drawn({ state: 'waiting', position: 1, requested_ms: NOW });
  expect(html).toContain('1st in line. Its cell goes on by itself.');
});

it('does not pass old news for new', () => {
  const text = 'This may have changed: the scheduler is not there.';
  expect(drawn({ state: 'parked' }, 'unreachable')).toContain(text);
  expect(drawn({ state: 'parked' })).not.toContain(text);
});
