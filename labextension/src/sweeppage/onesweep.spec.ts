/** What the page of a sweep asks, and when. */
import * as React from 'react';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { PanelContext } from '../components/context';
import type { ISweep, ITrial } from '../server/sweeps';
import { msg } from '../testing/make';
import { sweepMessages } from './messages';
import { OneSweep } from './onesweep';

const onLook = vi.fn();

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
    ...{ improvements_thinned: false, improvements_begun_late: false },
    improvements: trials.map(({ number }) => ({
      ...{ at_ms: number, trial: number, value: number }
    })),
    trials: trials as unknown as ITrial[]
  };
}

it('says of GPUs in use only what is known', () => {
  const { noGpus } = sweepMessages(msg);
  const sweep = sweepWith(1);
  expect(noGpus({ ...sweep, running: 1, milli_gpu_s: 0 })).toContain(
    'after its end'
  );
  expect(noGpus({ ...sweep, running: 0, milli_gpu_s: 0 })).toBe(
    'It holds no GPU yet.'
  );
  expect(noGpus({ ...sweep, ended_ms: 5, milli_gpu_s: 9 })).toContain(
    'after its end'
  );
  expect(noGpus({ ...sweep, ended_ms: 5 })).toBe('It held no GPU.');
});

/** The page of a sweep that this many trials have told; what it asked for, by its last word. */
async function drawnWith(trialsNow: () => number) {
  const asked: string[] = [];
  const api = {
    request: (_: string, path: string[]) => {
      asked.push(path.at(-1) ?? '');
      const text = `${trialsNow()} have.`;
      return Promise.resolve(
        path.at(-1) === 'figures'
          ? { gpus: [], importance: {}, importance_text: text }
          : sweepWith(trialsNow())
      );
    }
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
        React.createElement(OneSweep, { sweep: 's', onLook })
      )
    );
    await vi.advanceTimersByTimeAsync(10);
  });
  const takeAway = () =>
    React.act(async () => {
      root.unmount();
      await Promise.resolve();
    });
  return { node, asked, takeAway };
}

it('counts in What matters the trials that its table shows', async () => {
  let told = 0;
  const { node, takeAway } = await drawnWith(() => told);
  expect(node.textContent).toContain('0 have.');
  told = 2;
  await React.act(() => vi.advanceTimersByTimeAsync(3100));
  expect(node.textContent).toContain('2 have.');
  await takeAway();
});

it('asks for a sweep of many trials once, and for its figures behind it', async () => {
  const { asked, takeAway } = await drawnWith(() => 1000);
  expect(asked).toEqual(['s', 'figures']);
  await React.act(() => vi.advanceTimersByTimeAsync(9000));
  expect(asked).toEqual(['s', 'figures']);
  await React.act(() => vi.advanceTimersByTimeAsync(2000));
  expect(asked).toEqual(['s', 'figures', 's']);
  await takeAway();
});
