/** A plan beside what came: by the reader's clock, and anew where the number of GPUs changed. */
import { expect, it } from 'vitest';

import type { IPlanRecord } from '../server/plans';
import { msg } from '../testing/make';
import { anewText, planRows } from './plan';

const AT = new Date(2026, 10, 30, 16, 0).getTime();
const MINUTE = 60_000;
const PLAN: IPlanRecord = {
  text: 'DDP × 4 on 4 × A100-40 of train, grade B',
  made_ms: AT,
  notes: [],
  lines: [
    { what: 'Wait', predicted: '3–8 min', actual: '48 min', right: false },
    {
      what: 'Finish',
      predicted: 'of a clock in UTC',
      actual: 'of a clock in UTC',
      predicted_ms: [AT + 40 * MINUTE, AT + 70 * MINUTE],
      actual_ms: AT + 122 * MINUTE,
      right: false
    }
  ],
  is_over: true
};
const ANEW = {
  step: 5430,
  unit: 'step',
  gpus: 2,
  layout: 'DDP × 2, accumulation × 2',
  batch: 256,
  as_told: true,
  verdict: 'fits',
  speed: '9.1–10.4 samples/s'
};

it('shows when it was said to be done, and when it was, by the reader’s clock', () => {
  expect(planRows(PLAN, msg, AT + 180 * MINUTE)[1]).toEqual({
    what: 'Finish',
    said: '16:40 to 17:10',
    came: '18:02',
    right: false
  });
});

it('says one minute once, where all of the span lies in it', () => {
  const lines = PLAN.lines.map(line => ({
    ...line,
    predicted_ms: [AT + 40 * MINUTE, AT + 40 * MINUTE + 7000] as [
      number,
      number
    ]
  }));
  expect(planRows({ ...PLAN, lines }, msg, AT)[1]?.said).toBe('16:40');
});

it('says seconds where a job was late within the minute that was said', () => {
  const minute = AT + 40 * MINUTE;
  const lines = PLAN.lines.map(line => ({
    ...line,
    predicted_ms: [minute + 8000, minute + 31_000] as [number, number],
    actual_ms: minute + 44_000
  }));
  const [, row] = planRows({ ...PLAN, lines }, msg, AT);
  expect(row).toMatchObject({ said: '16:40:08 to 16:40:31', came: '16:40:44' });
});

it('names the day where a job was done on another', () => {
  const lines = PLAN.lines.map(line => ({
    ...line,
    actual_ms: AT + 1440 * MINUTE
  }));
  const rows = planRows({ ...PLAN, lines }, msg, AT);
  expect(rows[1]?.came).toBe('1 Dec 16:00');
});

it('names the day of all of them to who reads it days later', () => {
  const row = planRows(PLAN, msg, AT + 3 * 1440 * MINUTE)[1];
  expect([row?.said, row?.came]).toEqual([
    '30 Nov 16:40 to 30 Nov 17:10',
    '30 Nov 18:02'
  ]);
});

it('leaves what it has no words for as the scheduler says it', () => {
  const [row] = planRows(PLAN, msg, AT);
  expect([row?.said, row?.came]).toEqual(['3–8 min', '48 min']);
});

it('says of another number of GPUs what changed and what stays', () => {
  expect(anewText(ANEW, msg)).toBe(
    'Resumed at step 5,430 on 2 GPUs; plan changed: DDP × 2, accumulation × 2; global batch unchanged (256): fits, 9.1–10.4 samples/s. Its script is told so (GPUCOMMONS_ACCUMULATION, GPUCOMMONS_BATCH_SCALE): one that does not take what it is told trains with another global batch.'
  );
  expect(anewText({ ...ANEW, step: null, gpus: 1 }, msg)).toMatch(
    /^Started on 1 GPU; plan changed/
  );
  expect(anewText({ ...ANEW, as_told: false }, msg)).toMatch(
    /its script has to do it so itself\.$/
  );
});
