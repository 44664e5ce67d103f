/** What the page of a sweep asks, and when. */
import * as React from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { PanelContext } from '../components/context';
import type { ISweep, ITrial } from '../server/sweeps';
import { msg } from '../testing/make';
import { OneSweep } from './onesweep';

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal(
    'ResizeObserver',
    class {
      observe = () => undefined;
      disconnect = () => undefined;
    }
  );
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function sweepWith(told: number): ISweep {
  const trials = Array.from({ length: told }, (_, number) => ({
    ...{ number, best: number, best_ms: number, values: {}, state: 'done' },
    ...{ job_name: `t${number}`, rungs: 0, step: 1, text: '' }
  }));
  return {
    ...{ id: 's', kind: 'sweep', name: 's', owner: 'ada', team: 'vision' },
    ...{ made_ms: 1, text: '', metric: 'accuracy', direction: 'maximize' },
    ...{ sampler: 'tpe', max_parallel: 2, trials_of: 9, begun: told },
    ...{ running: 0, waiting: 0, paused: 0, done: told, failed: 0 },
    ...{ milli_gpu_s: 0, rungs: [], steerable: false },
    trials: trials as unknown as ITrial[]
  };
}

it('counts in What matters the trials that its table shows', async () => {
  let told = 0;
  const api = {
    request: (_: string, path: string[]) =>
      Promise.resolve(
        path.at(-1) === 'figures'
          ? { gpus: [], importance: {}, importance_text: `${told} have.` }
          : sweepWith(told)
      )
  };
  const model = {
    ...{ api, connection: 'ok', whoami: null, jobs: [], myTeams: [] },
    clock: { now: () => 0 },
    changed: { connect: () => true, disconnect: () => true }
  };
  const context = { model, commands: {}, train: {}, msg, trans: msg.trans };
  const node = document.createElement('div');
  const root = createRoot(node);
  await React.act(async () => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: context as never },
        React.createElement(OneSweep, { sweep: 's' })
      )
    );
    await vi.advanceTimersByTimeAsync(10);
  });
  expect(node.textContent).toContain('0 have.');
  told = 2;
  await React.act(() => vi.advanceTimersByTimeAsync(3100));
  expect(node.textContent).toContain('2 have.');
  await React.act(async () => {
    root.unmount();
    await Promise.resolve();
  });
});
