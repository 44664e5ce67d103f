/** Where a curve comes from and what a job used, as the page says it. */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import { makeAttempt, msg } from '../testing/make';
import { CurveSource } from '../server/types';
import type { IJobUse } from '../server/jobuse';
import { CurveView } from './curveview';
import { UseView } from './useview';

const context = { model: { connection: 'ok' }, msg, trans: msg.trans };
const USE: IJobUse = {
  spans: [
    {
      from_ms: 0,
      to_ms: 100,
      held_milli_gpu: 2000,
      used_milli_gpu: 1690,
      memory_used_mib: 12_200
    }
  ],
  asked_milli_gpu: 2000,
  used_milli_gpu: 1690,
  memory_used_mib_max: 12_200,
  text: 'asked 2 GPUs, used 1.7',
  simulated: false
};

function drawn(child: React.ReactElement): string {
  return renderToStaticMarkup(
    React.createElement(
      PanelContext.Provider,
      { value: context as never },
      child
    )
  );
}

function useWords(use: IJobUse, milliGpu = 2000): string {
  const attempts = [makeAttempt({ milli_gpu: milliGpu })];
  const props = { use, attempts, fromMs: 0, toMs: 100 };
  return drawn(React.createElement(UseView, props));
}

it('says what a job used of what it asked for', () => {
  expect(useWords(USE)).toContain('asked 2 GPUs, used 1.7');
  expect(useWords(USE)).toContain('11.9 GiB, the fullest worker');
  expect(useWords({ ...USE, memory_held_mib: 39_731 })).toContain(
    '11.9 of 38.8 GiB, the fullest worker'
  );
});

it('says that the use of simulated GPUs was not measured on one', () => {
  expect(useWords(USE)).not.toContain('simulated');
  expect(useWords({ ...USE, simulated: true })).toContain(
    '11.9 GiB, the fullest worker (simulated)'
  );
});

it('draws nothing where nothing was measured', () => {
  const text = 'asked 2 GPUs, no GPU data';
  const words = useWords({ ...USE, used_milli_gpu: null, text });
  expect(words).toContain(text);
  expect(words).not.toContain('svg');
});

it('says how much was held in numbers that people read', () => {
  expect(useWords(USE, 1753)).toContain('GPUs, of 1¾ held');
});

const CURVE = {
  id: 'j-1',
  points: [{ attempt: 1, step: 1, at_ms: 0, metrics: { loss: 0.5 } }],
  source: 'log' as const,
  sources: ['log' as const]
};

it('hopes for no curve of a job that has ended', () => {
  const words = drawn(
    React.createElement(CurveView, {
      followed: { ...CURVE, points: [] },
      isOver: true
    })
  );
  expect(words).toContain('No curve: no metrics were found');
  expect(words).not.toContain('A curve appears');
});

it('names where the curve was read, and offers the others', () => {
  const words = drawn(React.createElement(CurveView, { followed: CURVE }));
  expect(words).toContain('source: log, rank 0');
  expect(words).not.toContain('<select');
  const sources: CurveSource[] = ['report', 'log'];
  const menu = drawn(
    React.createElement(CurveView, { followed: { ...CURVE, sources } })
  );
  expect(menu).toContain('source: reports of the script</option>');
  expect(menu).toContain('<option value="log" selected="">');
});
