/** Waiting jobs looked at together: what is said, and what one button sets. */
import { expect, it } from 'vitest';

import type { ITogetherPool } from '../server/plans';
import { msg } from '../testing/make';
import { leftOut, newSizes, poolText } from './together';

const POOL: ITogetherPool = {
  pool: 'train',
  mean_s: 1800,
  mean_as_asked_s: 2700,
  mean_alone_s: 3600,
  is_best: true,
  jobs: [
    { id: 'a', name: 'digits-1', gpus: 2, gpus_asked: 1, gpus_alone: 4 },
    { id: 'b', name: 'digits-2', gpus: 2, gpus_asked: 2, gpus_alone: 4 }
  ]
};

it('says what is best for all, as submitted, and each for itself', () => {
  expect(poolText(POOL, msg)).toBe(
    'In pool train they are done after 30 min on average with other numbers of GPUs, 45 min as they were submitted. Each with what is best for it alone: 1 h.'
  );
});

it('says so where they are best as they are, and that not all was tried', () => {
  const jobs = POOL.jobs.map(one => ({ ...one, gpus: one.gpus_asked }));
  const same = { ...POOL, jobs, mean_alone_s: 1810, is_best: false };
  expect(poolText(same, msg)).toBe(
    'In pool train they are done soonest as they were submitted: after 30 min on average. These are the best found; not all were tried.'
  );
});

it('sets the sizes of jobs of one worker, and none where one has several', () => {
  const one = [
    { id: 'a', workers: 1 },
    { id: 'b', workers: 1 }
  ];
  expect(newSizes(POOL, one)).toEqual([{ id: 'a', milliGpu: 2000 }]);
  expect(newSizes(POOL, [{ id: 'a', workers: 2 }])).toEqual([]);
  expect(newSizes(POOL, [])).toEqual([]);
});

it('names whom it leaves out, and why', () => {
  const found = {
    pools: [],
    unknown: ['a-1', 'a-2'],
    ran: [],
    later: ['b-1'],
    text: ''
  };
  expect(leftOut(found, msg)).toEqual([
    'Without a plan, and so left out: a-1, a-2',
    'Submitted after the ones looked at: b-1'
  ]);
});
