/** What the charts of a sweep are drawn from. */
import { expect, it } from 'vitest';

import type { ISweep, ITrial } from '../server/sweeps';
import { bests, bestSoFar, canBeCompared, gpusInUse, time } from './charts';
import type { IChartWords, IColours } from './charts';

const trial = (number: number, best: number | null) =>
  ({ number, best, best_ms: number }) as ITrial;

it('compares two trials also where the first was the best', () => {
  const trials = [trial(1, 0.98), trial(2, 0.97), trial(3, null)];
  expect(canBeCompared(trials)).toBe(true);
  expect(canBeCompared([trial(1, 0.98), trial(2, null)])).toBe(false);
});

it('names seconds on an axis of a few minutes, and days on one of days', () => {
  const moments = (...minutes: number[]) =>
    minutes.map(minute => ({ at: minute * 60_000 }));
  expect(time(moments(0, 3)).axis.format).toBe('%H:%M:%S');
  expect(time(moments(0, 30)).axis.format).toBe('%H:%M');
  expect(time(moments(0, 2 * 1440)).axis.format).toBe('%m-%d %H:%M');
  expect(time(moments(0, 9 * 1440)).axis.format).toBe('%m-%d');
});

it('draws no GPUs after the end of a sweep', () => {
  const drawn = (endMs: number, ...moments: number[]) => {
    const gpus = moments.map(at_ms => ({ at_ms, milli_gpu: 500 }));
    const spec = gpusInUse(gpus, endMs, {} as IChartWords, {} as IColours);
    return (spec.data as { values: { at: number }[] }).values.at(-1)?.at;
  };
  expect(drawn(13_000, 0)).toBe(13_000);
  expect(drawn(90_000, 0, 60_000)).toBe(90_000);
  expect(drawn(300_000, 0, 60_000)).toBe(120_000);
});

it('draws the best so far up to what was told last, and never back', () => {
  const trials = [trial(30, 0.4), trial(90, 0.7), trial(110, 0.5)];
  const improvements = [
    { at_ms: 10, trial: 90, value: 0.3 },
    { at_ms: 30, trial: 30, value: 0.4 },
    { at_ms: 90, trial: 90, value: 0.7 }
  ];
  const sweep = { trials, improvements, metric: 'score' } as ISweep;
  expect(bests(sweep).map(each => each.value)).toEqual([0.3, 0.4, 0.7]);
  const spec = bestSoFar(sweep, 60, {} as IChartWords, {} as IColours);
  const [, line] = spec.layer as { data: { values: { at: number }[] } }[];
  expect(line?.data.values.map(each => each.at)).toEqual([10, 30, 90, 110]);
});
