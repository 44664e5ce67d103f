import { expect, it } from 'vitest';

import { IFilesPreview } from '../server/types';
import {
  goAlong,
  hasTriggers,
  mistakeOf,
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
  expect(mistakeOf(NO_TRIGGERS)).toBeNull();
  expect(mistakeOf({ ...NO_TRIGGERS, metric: 'accuracy' })).toBe('below');
  expect(mistakeOf({ ...NO_TRIGGERS, metric: 'loss', below: 'x' })).toBe(
    'below'
  );
  expect(mistakeOf({ ...NO_TRIGGERS, below: '97' })).toBe('metric');
  expect(mistakeOf({ ...NO_TRIGGERS, metric: 'loss', below: '1e-3' })).toBe(
    null
  );
});

it.each([
  ['data', true],
  ['lab/data/day-1.csv', false],
  ['data/day', false],
  ['/home/ann/data/', true],
  ['/srv/data', false],
  ['https://minio/data', false],
  ['', false]
])(
  'knows whether %s goes along with the files of the job',
  (data, expected) => {
    const files = { files: [{ path: 'data/day-1.csv' }] } as IFilesPreview;
    const draft = { ...NO_TRIGGERS, data };
    expect(goAlong(draft, files, '/home/ann')).toBe(expected);
    const below = { ...files, folder: 'lab' };
    expect(goAlong({ ...NO_TRIGGERS, data: 'lab/data' }, below, '/')).toBe(
      true
    );
    expect(goAlong({ ...NO_TRIGGERS, data: 'data' }, below, '/')).toBe(false);
  }
);

it.each([
  [{ data: 'https://' }, 'data'],
  [{ data: 'ftp://x/y' }, 'data'],
  [{ data: 'my data/day 1' }, null],
  [{ after: 'a b!' }, 'after'],
  [{ after: 'Clean' }, 'after'],
  [{ after: 'clean.v2' }, 'after'],
  [{ after: 'a_b' }, 'after'],
  [{ after: 'c'.repeat(103) }, 'after'],
  [{ after: 'c'.repeat(102) }, null],
  [{ after: 'vision/clean-7' }, null],
  [{ metric: 'ä', below: '1' }, 'metric'],
  [{ promote: 'ä' }, 'promote'],
  [{ promote: 'val loss' }, null]
])('names the field of %o that the server would refuse', (some, expected) => {
  expect(mistakeOf({ ...NO_TRIGGERS, ...some })).toBe(expected);
});
