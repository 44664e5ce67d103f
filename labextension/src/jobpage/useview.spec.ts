/** Where a curve comes from and what a job used, as the page says it. */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';

import { PanelContext } from '../components/context';
import { msg } from '../testing/make';
import { IJobUse } from './use';
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
  text: 'asked 2 GPUs, used 1.7'
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

function useWords(use: IJobUse): string {
  return drawn(React.createElement(UseView, { use, fromMs: 0, toMs: 100 }));
}

it('says what a job used of what it asked for', () => {
  expect(useWords(USE)).toContain('asked 2 GPUs, used 1.7');
  expect(useWords(USE)).toContain('11.9 GiB, the fullest worker');
});

it('draws nothing where nothing was measured', () => {
  const text = 'asked 2 GPUs, no GPU data';
  const words = useWords({ ...USE, used_milli_gpu: null, text });
  expect(words).toContain(text);
  expect(words).not.toContain('svg');
});

it('says how much was held in numbers that people read', () => {
  const spans = [
    { from_ms: 0, to_ms: 60, held_milli_gpu: 1753, used_milli_gpu: 100 }
  ];
  expect(useWords({ ...USE, spans })).toContain('GPUs, of 1¾ held');
});

it('hopes for no curve of a job that has ended', () => {
  const words = drawn(
    React.createElement(CurveView, { points: [], isOver: true })
  );
  expect(words).toContain('No curve: no metrics were found');
  expect(words).not.toContain('A curve appears');
});

it('names where the curve was read', () => {
  const points = [{ attempt: 1, step: 1, at_ms: 0, metrics: { loss: 0.5 } }];
  const words = drawn(
    React.createElement(CurveView, { points, source: 'log' })
  );
  expect(words).toContain('source: log, rank 0');
});
