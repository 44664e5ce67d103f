/** Workers of an elastic job over time, and what is said of each change. */
import { expect, it } from 'vitest';

import { clock } from '../text/format';
import { IJobRequest } from '../server/types';
import { makeAttempt, makeJob, msg } from '../testing/make';
import { jobMessages } from './messages';
import { workersView } from './workers';

const words = jobMessages(msg);
const request = { min_workers: 1, max_workers: 4 } as IJobRequest;
const attempts = [
  makeAttempt({ id: 'a-1', workers: 1, started_ms: 0, ended_ms: 500 }),
  makeAttempt({
    id: 'a-2',
    number: 2,
    workers: 4,
    started_ms: 600,
    times_faster: 3.4
  })
];

it('draws a step for each attempt and says how much faster the larger one is', () => {
  const view = workersView(makeJob({ request, attempts }), 1000, words);
  expect(view?.path).toBe('M0 36V28H500V36ZM600 36V2H1000V36Z');
  expect(view?.changes.map(one => one.text)).toEqual([
    `grew to 4 at ${clock(600)}: 3.4 × faster`
  ]);
});

it('says no number that was not measured, and slower where it is', () => {
  expect(words.changedSize(1, 4, '19:02', null)).toBe('grew to 4 at 19:02');
  expect(words.changedSize(4, 2, '19:02', 0.55)).toBe(
    'shrank to 2 at 19:02: 1.8 × slower'
  );
  expect(words.changedSize(2, 4, '19:02', 1)).toBe(
    'grew to 4 at 19:02: no faster'
  );
});

it('draws nothing for a job that always has the same number', () => {
  expect(workersView(makeJob({ attempts }), 1000, words)).toBeNull();
});
