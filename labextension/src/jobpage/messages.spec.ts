/** Sentences of a job's page. */
import { expect, it } from 'vitest';

import { msg } from '../testing/make';
import { jobMessages } from './messages';

it.each([
  ['sweep', 7, 'trial 7 of sweep digits-3'],
  ['map', 2, 'job 2 of map digits-3'],
  ['schedule', 0, 'run of schedule digits-3'],
  ['look', 0, 'look at the data of schedule digits-3']
])('says what a job is part of: %s', (kind, number, words) => {
  const part = { id: 'p', kind, name: 'digits-3', number };
  expect(jobMessages(msg).partOf(part)).toBe(words);
});
