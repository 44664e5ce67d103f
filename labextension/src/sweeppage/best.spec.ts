/** Whose best trial is offered to be run again. */
import * as React from 'react';
import { createRoot } from 'react-dom/client';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import type { ISweep } from '../server/sweeps';
import { makeJob, msg } from '../testing/make';
import { GoOnWithBest } from './best';
import { sweepMessages } from './messages';

const SWEEP = {
  team: 'vision',
  owner: 'ada',
  metric: 'accuracy',
  best: { number: 3, job_id: 'job-3', best: 0.98, values: { lr: 0.1 } }
} as unknown as ISweep;

/** Why each button of the offer rests; null where it does not. */
async function offered(
  who: string,
  why: string | null
): Promise<(string | null)[]> {
  const job = makeJob({ again_hindrance: why });
  const model = {
    api: { job: () => Promise.resolve(job) },
    connection: 'ok',
    myTeams: [],
    whoami: { name: who }
  };
  const node = document.createElement('div');
  const root = createRoot(node);
  const context = { model, train: {}, commands: {}, msg };
  await React.act(async () => {
    root.render(
      React.createElement(
        PanelContext.Provider,
        { value: context as never },
        React.createElement(GoOnWithBest, { sweep: SWEEP })
      )
    );
    await Promise.resolve();
  });
  return Array.from(node.querySelectorAll('button'), button =>
    button.disabled ? button.title : null
  );
}

it.each([
  ['its owner', 'ada', 'Not asked.', null],
  ['who may have its files', 'ann', null, null],
  ['who may not', 'ann', 'Its files are ada’s.', 'Its files are ada’s.']
])('is offered to %s as far as they may run it', async (_, who, why, told) => {
  expect(await offered(who, why)).toEqual([told, told]);
});

it('counts also the trials that ended with their sweep', () => {
  const none = { running: 0, waiting: 0, paused: 0, failed: 0 };
  const over = { ...none, begun: 12, done: 1, ended_ms: 5 } as ISweep;
  const { counts } = sweepMessages(msg);
  expect(counts(over)).toBe('1 finished, 11 ended with the sweep');
  expect(counts({ ...over, ended_ms: null })).toBe('1 finished');
});
