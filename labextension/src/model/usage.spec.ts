import { describe, expect, it } from 'vitest';

import { makeSample } from '../testing/make';
import { spark, UsageHistory, WINDOW_MS } from './usage';

describe('usage history', () => {
  it('takes history and live samples once each, in order', () => {
    const usage = new UsageHistory();
    usage.add('ok', [makeSample(1000), makeSample(2000)]);
    usage.add('ok', [makeSample(2000), makeSample(3000)]);

    expect(usage.samples.map(sample => sample.at_ms)).toEqual([
      1000, 2000, 3000
    ]);
  });

  it('forgets what is older than the window', () => {
    const usage = new UsageHistory();
    usage.add('ok', [makeSample(0), makeSample(WINDOW_MS + 1)]);

    expect(usage.samples).toHaveLength(1);
  });

  it('is stale when the newest sample is old, not when there is none', () => {
    const usage = new UsageHistory();
    expect(usage.isStale(1e9)).toBe(false);
    usage.add('ok', [makeSample(1000)]);

    expect(usage.isStale(5000)).toBe(false);
    expect(usage.isStale(60_000)).toBe(true);
  });
});

describe('sparkline', () => {
  it('ends at the right edge and stays inside', () => {
    const { line } = spark([makeSample(0, 0), makeSample(1000, 100)], 300, 40);

    expect(line).toBe('M299 39L300 1');
  });

  it('breaks where a second has no number, for missing is not zero', () => {
    const samples = [
      makeSample(0, 10),
      makeSample(1000, null),
      makeSample(2000, 10)
    ];
    const { line, area } = spark(samples, 300, 40);

    expect(line.match(/M/g)).toHaveLength(2);
    expect(area.match(/Z/g)).toHaveLength(2);
  });

  it('draws nothing of nothing', () => {
    expect(spark([], 300, 40)).toEqual({ line: '', area: '' });
  });
});
