/** What a curve so far says of a goal, and of other numbers of GPUs. */
import { expect, it } from 'vitest';

import type { ICurveOutlook } from '../server/plans';
import { msg } from '../testing/make';
import { goalOf, hintsOf, metricsOf, outlookText, sizeRows } from './outlook';

const AHEAD: ICurveOutlook = {
  metric: 'accuracy',
  goal: 0.95,
  unit: 'epoch',
  at: 40,
  value: 0.91234,
  steps: { low: 60, middle: 70, high: 90 },
  seconds: { low: 1200, middle: 1800, high: 3000 },
  sizes: [],
  simulated: false,
  share_percent: 95,
  is_flat: false,
  parted: [],
  text: ''
};

it('takes a goal as people type it', () => {
  expect(goalOf('0.95')).toBe(0.95);
  expect(goalOf(' 0,95 ')).toBe(0.95);
  expect(goalOf('95 %')).toBe(0.95);
  expect(goalOf('1e-3')).toBe(0.001);
  expect([goalOf(''), goalOf('%'), goalOf('soon'), goalOf('1.2.3')]).toEqual([
    null,
    null,
    null,
    null
  ]);
});

it('names metrics that people have goals for first', () => {
  const metrics = { epoch: 1, lr: 0.1, val_loss: 1, accuracy: 0.5 };
  const points = [{ attempt: 1, step: 1, at_ms: 0, metrics }];
  expect(metricsOf(points)).toEqual(['accuracy', 'val_loss', 'lr']);
});

it('says where the goal likely is, or that it was reached, or that it is not', () => {
  expect(outlookText(AHEAD, msg)).toBe(
    'accuracy likely comes to 0.95 at epoch 60–90. It is about 0.9123 at epoch 40.'
  );
  expect(outlookText({ ...AHEAD, reached_at: 1234 }, msg)).toBe(
    'accuracy came to 0.95 at epoch 1,234.'
  );
  const open = {
    ...AHEAD,
    steps: { low: 60.5, high: null },
    share_percent: 62
  };
  expect(outlookText(open, msg)).toContain(
    'at epoch 60.5 or later, in about 6 of ten cases within 10 times'
  );
  for (const never of [
    { ...AHEAD, share_percent: 9 },
    { ...AHEAD, steps: { low: null } }
  ]) {
    expect(outlookText(never, msg)).toContain('likely does not come to 0.95');
  }
  expect(outlookText({ ...AHEAD, steps: null, at: null }, msg)).toContain(
    'Can’t say yet'
  );
});

it('hints where going on brings little, and where it learns by heart', () => {
  expect(hintsOf(AHEAD, msg)).toEqual([]);
  const parted = [{ metric: 'val_loss', trained: 'loss', since: 20 }];
  const hints = hintsOf({ ...AHEAD, is_flat: true, parted }, msg);
  expect(hints[0]).toContain('accuracy is flat');
  expect(hints[1]).toContain('val_loss was lowest at epoch 20');
});

it('has a row for each number of GPUs, and its own alone where no other is known', () => {
  const sizes = [
    { gpus: 1, seconds: AHEAD.seconds ?? {}, basis: 'measured' },
    { gpus: 2, seconds: { low: 700, middle: 1000, high: null }, basis: 'runs' },
    { gpus: 4, seconds: {}, basis: 'newer' }
  ];
  expect(sizeRows({ ...AHEAD, sizes }, 1, msg)).toEqual([
    { gpus: '1', more: '20 min to 50 min', basis: 'at its pace now' },
    { gpus: '2', more: '12 min or more', basis: 'as its own runs scale' },
    { gpus: '4', more: '–', basis: 'newer' }
  ]);
  expect(sizeRows(AHEAD, 2, msg).map(row => row.gpus)).toEqual(['2']);
  expect(sizeRows({ ...AHEAD, seconds: null }, 2, msg)).toEqual([]);
  expect(sizeRows(AHEAD, 0, msg)).toEqual([]);
});
