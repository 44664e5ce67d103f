import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { makeLease, msg } from '../testing/make';
import { UsageHistory } from '../model/usage';
import { PanelContext } from '../components/context';
import { MyGpu } from './mygpu';

const NOW = 50 * 60_000;
const SLICE = {
  slice_id: 's1',
  node: 'node-1',
  gpu_kind: 'A100-40',
  milli_gpu: 500,
  memory_mib: 20_480,
  isolation: 'none',
  simulated: false
};

function drawn(
  state: string,
  keepsLeft: number,
  connection = 'ok',
  trouble: string | null = null,
  returnedAfterMs: number | null = null
): string {
  const idle = {
    idle_since_ms: 0,
    returns_ms: 60 * 60_000,
    keeps_left: keepsLeft,
    idle_after_min: 60,
    warn_after_min: 50
  };
  const model = {
    connection,
    lease: makeLease({ state, idle, slice: { ...SLICE, trouble } }),
    usage: new UsageHistory(),
    clock: { now: () => NOW },
    gone: null,
    returnedAfterMs,
    isSimulated: false,
    sharedAccount: false
  };
  const commands = { hasCommand: () => false };
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: { model, msg, commands } as never },
      React.createElement(MyGpu)
    )
  );
}

it('names no time of the return before the hub told it', () => {
  const page = drawn('warned', 2, 'lost', null, 60 * 60_000);

  expect(page).toContain('The GPU was returned.');
});

it('offers what the notice offers for as long as the countdown runs', () => {
  const page = drawn('warned', 2);

  expect(page).toContain('GPU is returned in 10 min');
  expect(page).toContain('Keep 30 min (2 left)');
  expect(page).toContain('Drop to CPU');
  expect(page).toContain('Turn into job');
});

it('offers only what would be taken', () => {
  expect(drawn('warned', 0)).not.toContain('Keep 30 min');
  expect(drawn('active', 2)).not.toContain('Drop to CPU');
  expect(drawn('warned', 2, 'lost')).not.toContain('Keep 30 min');
});

it('says that its GPU is lost where nothing can be read of it', () => {
  const said = 'GPU 3 of node-1, which it has, is unhealthy.';

  expect(drawn('active', 2, 'ok', said)).toContain(said);
  expect(drawn('active', 2)).not.toContain(said);
});
