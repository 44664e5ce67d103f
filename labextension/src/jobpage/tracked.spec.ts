/** Runs of MLflow, as the job's page says them. */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import type { ITracked } from '../server/jobuse';
import { msg } from '../testing/make';
import { TrackedView } from './resultsview';

const URL = 'https://mlflow.example/#/experiments/3/runs/r1';
const TRACKED: ITracked = {
  server: 'https://mlflow.example',
  problem: '',
  runs: [
    {
      run_id: 'r1',
      name: 'calm-owl',
      status: 'running',
      url: URL,
      metrics: 2,
      metrics_url: `${URL}/model-metrics`,
      artifacts_url: null
    }
  ]
};

function drawn(tracked: ITracked | undefined): string {
  const value = { model: {}, msg, trans: msg.trans } as never;
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value },
      React.createElement(TrackedView, { tracked })
    )
  );
}

it('links a run and what it has, and nothing else', () => {
  const html = drawn(TRACKED);
  expect(html).toContain(`href="${URL}"`);
  expect(html).toContain('calm-owl');
  expect(html).toContain('running · <code>r1</code>');
  expect(html).toContain(`href="${URL}/model-metrics"`);
  expect(html).toContain('2 metrics');
  expect(html).not.toContain('artifacts');
});

it('says why runs are not known, and is silent where there are none', () => {
  const problem =
    'MLflow at https://mlflow.example does not answer as it should: its runs are not shown.';
  expect(drawn({ ...TRACKED, runs: [], problem })).toContain(problem);
  expect(drawn({ ...TRACKED, runs: [] })).toBe('');
  expect(drawn(undefined)).toBe('');
});
