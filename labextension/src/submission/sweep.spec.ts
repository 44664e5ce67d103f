import { expect, test } from 'vitest';

import {
  EMPTY_DRAFT,
  mistakeIn,
  mistakesIn,
  mostTrials,
  spaceOf,
  wholeRanges
} from './sweep';

const DRAFT = {
  ...EMPTY_DRAFT,
  metric: 'accuracy',
  parameters: [{ name: '--lr', values: '0.1, 0.2', scale: 'choice' as const }]
};

test('a bound of GPU-hours that the server would refuse is named before it is sent', () => {
  for (const gpuHours of ['', '0.001', '30', '10000000']) {
    expect(mistakeIn({ ...DRAFT, gpuHours })).toBeNull();
  }
  for (const gpuHours of ['0', '-5', '1e99', '0.0000001', 'many', 'NaN']) {
    expect(mistakeIn({ ...DRAFT, gpuHours })?.field).toBe('gpuHours');
  }
});

test('a range of whole numbers is said, and one with a point is of any numbers', () => {
  const dropout = (values: string, scale: 'even' | 'log' = 'even') => ({
    name: '--x',
    values,
    scale
  });
  expect(wholeRanges([dropout('0 to 1')]).map(each => each.name)).toEqual([
    'x'
  ]);
  expect(spaceOf([dropout('0 to 1')])).toEqual({ x: { low: 0, high: 1 } });
  expect(spaceOf([dropout('0.0 to 1')])).toEqual({
    x: { low: 0, high: 1, type: 'float' }
  });
  expect(spaceOf([dropout('1.0 to 8', 'log')])).toEqual({
    x: { low: 1, high: 8, log: true, type: 'float' }
  });
  for (const values of ['0.0 to 1', '0 to 0.5', '0 to 1 step 0.1', 'a to b']) {
    expect(wholeRanges([dropout(values)])).toEqual([]);
  }
  expect(wholeRanges([{ name: 'x', values: '0, 1', scale: 'choice' }])).toEqual(
    []
  );
});

test('a sweep has no more trials than there are settings to try', () => {
  const most = (
    lines: [values: string, scale: 'even' | 'log' | 'choice'][],
    trials = '40'
  ) => {
    const parameters = lines.map(([values, scale], index) => ({
      name: `p${index}`,
      values,
      scale
    }));
    return mostTrials({ ...DRAFT, trials, parameters });
  };
  expect(most([['1, 2, 3, 4, 5, 6', 'choice']])).toBe(6);
  expect(most([['1, 1, 2', 'choice']])).toBe(2);
  expect(most([['1, 2, 3, 4, 5, 6', 'choice']], '4')).toBe(4);
  expect(
    most([
      ['1 to 3', 'log'],
      ['0.1, 0.2', 'choice']
    ])
  ).toBe(6);
  expect(most([['0.1 to 0.3 step 0.1', 'even']])).toBe(3);
  expect(most([['0 to 1 step 0.3', 'even']])).toBe(4);
  for (const [values, scale] of [
    ['0.0 to 1', 'even'],
    ['0.001 to 1', 'log'],
    ['', 'choice']
  ] as const) {
    expect(most([[values, scale]])).toBe(40);
  }
});

test('each line and each field that is wrong is told, not the first alone', () => {
  const line = (name: string, values: string) => ({
    ...{ name, values },
    scale: 'even' as const
  });
  const found = mistakesIn({
    ...EMPTY_DRAFT,
    parameters: [
      line('--lr', '0.1 to 0.001'),
      line('', ''),
      line('two words', '1 to 2'),
      line('lr', '1 to 2')
    ],
    trials: '0',
    atOnce: 'many'
  });
  expect(found.map(({ field, line: at }) => [field, at])).toEqual([
    ['order', 0],
    ['name', 2],
    ['twice', 3],
    ['metric', undefined],
    ['trials', undefined],
    ['atOnce', undefined]
  ]);
});
