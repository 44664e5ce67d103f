import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import type { Connection } from '../server/api';
import { FollowedJob } from '../model/followed';
import { makeAttempt, makeJob, msg } from '../testing/make';
import { PanelContext } from '../components/context';
import { CurveView } from './curveview';
import { LogView } from './logview';

function page(
  connection: Connection,
  state = 'running',
  attempt = 'running'
): string {
  const parent = {
    send: () => true,
    release: () => undefined,
    attemptLine: () => ''
  };
  const followed = new FollowedJob(
    'j-1',
    parent,
    makeJob({ state, attempts: [makeAttempt({ state: attempt })] })
  );
  const context = { model: { connection }, msg } as never;
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context },
      React.createElement(CurveView, { followed }),
      React.createElement(LogView, { followed, workers: 1 })
    )
  );
}

it.each([
  [{ loss: 2.3, acc: 0.125 }, 'step 1 · loss 2.3 · acc 12.5 %'],
  [{ epoch: 1 }, 'A curve appears when']
])('shows one report as its values: %j', (metrics, words) => {
  const context = { model: { connection: 'ok' }, msg, trans: msg.trans };
  const points = [{ attempt: 1, step: 1, at_ms: 0, metrics }];
  const followed = {
    id: 'j-1',
    points,
    source: 'report',
    sources: []
  } as const;
  const drawn = renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context as never },
      React.createElement(CurveView, { followed })
    )
  );
  expect(drawn).toContain(words);
});

it('says that nothing was printed or reported only where that is known', () => {
  expect(page('ok')).toContain('Nothing printed yet.');
  expect(page('ok')).toContain('A curve appears when');
  for (const connection of ['unreachable', 'lost'] as const) {
    expect(page(connection)).not.toMatch(/Nothing printed|A curve appears/);
    expect(page(connection).match(/This cannot be loaded now\./g)).toHaveLength(
      2
    );
  }
});

it('stops and follows only a log that goes on', () => {
  expect(page('ok')).toContain('Pause scrolling');
  for (const state of ['paused', 'queued', 'succeeded']) {
    expect(page('ok', state, 'ended')).not.toContain('Pause scrolling');
  }
});
