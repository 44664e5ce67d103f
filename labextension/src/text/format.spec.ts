import { describe, expect, it } from 'vitest';

import {
  asSentence,
  bytes,
  countdown,
  duration,
  gib,
  gpuHours,
  gpus,
  length,
  metric,
  percent,
  shortNumber
} from './format';
import { msg } from '../testing/make';

describe('numbers as people write them', () => {
  it.each([
    [500, '½'],
    [250, '¼'],
    [1000, '1'],
    [1500, '1½'],
    [300, '0.3'],
    [0, '0']
  ])('%i milli-GPU is %s', (milli, text) => {
    expect(gpus(milli)).toBe(text);
  });

  it.each([
    ['Two GPUs', 'Two GPUs.'],
    [' Why not? ', 'Why not?'],
    ['', '']
  ])('%j ends as a sentence does', (text, sentence) => {
    expect(asSentence(text)).toBe(sentence);
  });

  it('is one way of writing a size, also where sizes are compared', () => {
    expect(msg.usedOfFixed(1500, 2000)).toBe('1½ of 2 fixed');
    expect(msg.plusBorrowed(750)).toBe('+ ¾ borrowed');
  });

  it.each([
    [0, '0 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [7_500_000, '2 h 5 min'],
    [3 * 86_400_000, '3 d'],
    [-5, '0 s']
  ])('%i ms lasts %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it.each([
    [40_400, '40 s'],
    [112_000, '1 min 52 s'],
    [120_000, '2 min'],
    [599_900, '10 min'],
    [1_799_000, '30 min']
  ])('%i ms took %s', (ms, text) => {
    expect(length(ms)).toBe(text);
  });

  it('never says that no time is left while some is', () => {
    expect(countdown(1)).toBe('1 s');
    expect(countdown(119_001)).toBe('120 s');
    expect(countdown(9 * 60_000 + 1)).toBe('10 min');
  });

  it('writes memory in GiB', () => {
    expect(gib(19_866)).toBe('19.4');
  });

  // The scheduler's tests read these rows: both write sizes of files in the same way.
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [2048, '2.0 KiB'],
    [999_600, '976.2 KiB'],
    [3_100_000, '3.0 MiB'],
    [5_368_709_120, '5.0 GiB'],
    [2_199_023_255_552, '2048.0 GiB']
  ])('%i bytes are %s', (count, text) => {
    expect(bytes(count)).toBe(text);
  });

  it('shows an accuracy as a share and a loss as a number', () => {
    expect(metric('accuracy', 0.9694)).toBe('96.9 %');
    expect(metric('accuracy', 0.00002)).toBe('0.002 %');
    expect(metric('loss', 0.1312)).toBe('0.131');
    expect(metric('accuracy', 96.9)).toBe('96.9');
    expect(shortNumber(1.23e-7)).toBe('1.2e-7');
    expect(shortNumber(Number.NaN)).toBe('NaN');
  });

  it('keeps shares within 0 and 100 and survives empty wholes', () => {
    expect(percent(3, 2)).toBe(100);
    expect(percent(1, 0)).toBe(0);
    expect(gpuHours(0)).toBe('0');
    expect(gpuHours(1_476_000)).toBe('0.41');
    expect(gpuHours(10)).toBe('< 0.01');
  });
});
