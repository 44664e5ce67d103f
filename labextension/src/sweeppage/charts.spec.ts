/** What the charts of a sweep are drawn from. */
import { expect, it } from 'vitest';

import type { ITrial } from '../server/sweeps';
import { canBeCompared, steps, time, told } from './charts';

const trial = (number: number, best: number | null) =>
  ({ number, best, best_ms: number }) as ITrial;

it('compares two trials also where the first was the best', () => {
  const trials = [trial(1, 0.98), trial(2, 0.97), trial(3, null)];
  expect(steps(told(trials), true)).toHaveLength(1);
  expect(canBeCompared(trials)).toBe(true);
  expect(canBeCompared([trial(1, 0.98), trial(2, null)])).toBe(false);
});

it('names seconds on an axis of a few minutes', () => {
  const moments = (...minutes: number[]) =>
    minutes.map(minute => ({ at: minute * 60_000 }));
  expect(time(moments(0, 3)).axis.format).toBe('%H:%M:%S');
  expect(time(moments(0, 30)).axis.format).toBe('%H:%M');
});
