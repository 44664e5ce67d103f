import { expect, it } from 'vitest';

import { FORGOTTEN } from '../server/schedules';
import type { IScheduleRun } from '../server/schedules';
import { msg } from '../testing/make';
import { scheduleMessages } from './messages';

const words = scheduleMessages(msg);

function run(fields: Partial<IScheduleRun>): IScheduleRun {
  return {
    outcome: 'started',
    due_ms: 0,
    count: 1,
    text: '',
    job_id: 'j-1',
    job_name: 'nightly-1',
    by_hand: false,
    ...fields
  };
}

it('says what became of a job that the list of jobs has left', () => {
  expect(words.jobState(run({ job_state: 'succeeded' }))).toBe('finished');
  expect(words.jobState(run({ job_state: 'failed' }))).toBe('failed');
  expect(words.jobState(run({ job_state: FORGOTTEN }))).toBe(
    'its job is no longer kept'
  );
});

it('says nothing of a job whose state an earlier scheduler does not tell', () => {
  expect(words.jobState(run({ job_state: null }))).toBe('');
});
