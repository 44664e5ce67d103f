import { expect, it } from 'vitest';

import {
  hasTriggers,
  isWhole,
  NO_TRIGGERS,
  promoteBody,
  triggersBody
} from './triggers';

it('sends what is typed, with paths of the folder that the reader sees', () => {
  const draft = {
    ...NO_TRIGGERS,
    data: 'data/day',
    after: ' clean ',
    on: 'any' as const,
    metric: 'accuracy',
    below: '97.5'
  };
  expect(triggersBody(draft, '~/lab/')).toEqual([
    { data: { path: '~/lab/data/day' } },
    { after: { job: 'clean', on: 'any' } },
    { metric: { name: 'accuracy', below: 97.5 } }
  ]);
  expect(triggersBody(NO_TRIGGERS, '~')).toEqual([]);
});

it('compares models by a metric where one is named', () => {
  expect(promoteBody(NO_TRIGGERS)).toBeUndefined();
  const draft = { ...NO_TRIGGERS, promote: ' loss ', isHighest: false };
  expect(promoteBody(draft)).toEqual({ metric: 'loss', direction: 'minimize' });
});

it.each([
  ['/srv/data', { path: '/srv/data' }],
  ['~/data', { path: '~/data' }],
  ['https://minio/b/k', { url: 'https://minio/b/k' }]
])('takes %s as it is', (data, expected) => {
  const [first] = triggersBody({ ...NO_TRIGGERS, data }, '/home/ann');
  expect(first).toEqual({ data: expected });
});

it('knows what is no trigger yet', () => {
  expect(hasTriggers(NO_TRIGGERS)).toBe(false);
  expect(hasTriggers({ ...NO_TRIGGERS, after: 'clean' })).toBe(true);
  expect(isWhole(NO_TRIGGERS)).toBe(true);
  expect(isWhole({ ...NO_TRIGGERS, metric: 'accuracy' })).toBe(false);
  expect(isWhole({ ...NO_TRIGGERS, below: '97' })).toBe(false);
  expect(isWhole({ ...NO_TRIGGERS, metric: 'loss', below: '1e-3' })).toBe(true);
});
