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

it('says where steps take longer, since when and until when it is avoided', () => {
  const of = { percent: 30, since_ms: 0, until_ms: 86_400_000 };
  const one = jobMessages(msg).slow({ ...of, nodes: ['n1'] });
  expect(one).toMatch(
    /30 % longer on n1 than on other nodes, known since \D*1\b.*: until \D*2\b.* another of equal/
  );
  const two = jobMessages(msg).slow({ ...of, nodes: ['n1', 'n2'] });
  expect(two).toMatch(
    /30 % longer on n1 and n2 together .*, known since \D*1\b.*: until \D*2\b.* first looks for others/
  );
});

it.each([
  [{ nodes: 1, link: 'nvlink' }, '4 GPUs on one node, linked by NVLink'],
  [
    { nodes: 1, link: 'node' },
    '4 GPUs on one node, across CPU sockets (NUMA nodes)'
  ],
  [{ nodes: 1, link: '' }, '4 GPUs on one node, links not known'],
  [{ nodes: 1, link: 'of-tomorrow' }, '4 GPUs on one node, links not known'],
  [{ nodes: 2, link: '', racks: 1 }, '4 GPUs on 2 nodes in one rack'],
  [{ nodes: 3, link: '', racks: 2 }, '4 GPUs on 3 nodes in 2 racks'],
  [{ nodes: 2, link: '', racks: null }, '4 GPUs on 2 nodes, links not known']
])('says how tightly GPUs lie together: %o', (of, words) => {
  expect(jobMessages(msg).tightness({ gpus: 4, ...of })).toBe(words);
});
