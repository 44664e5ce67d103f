import { describe, expect, it } from 'vitest';

import { makeJob, msg } from '../testing/make';

const MODES = [
  'hardware',
  'kernel',
  'driver',
  'cooperative',
  'watched',
  'none'
];

describe('the state of a job', () => {
  it('says for what it stops, where the scheduler knows', () => {
    const state_text = 'stopping for a test';

    expect(msg.state(makeJob({ state: 'preempting', state_text }))).toBe(
      state_text
    );
    expect(msg.state(makeJob({ state: 'preempting' }))).toBe('stopping');
  });
});

describe('a place in line', () => {
  it.each([
    [1, '1st'],
    [2, '2nd'],
    [3, '3rd'],
    [11, '11th'],
    [22, '22nd'],
    [113, '113th']
  ])('%i is %s', (n, text) => {
    expect(msg.ordinal(n)).toBe(text);
  });
});

describe('isolation in words', () => {
  it('names each mode and says something of its own about it', () => {
    const texts = MODES.map(mode => msg.isolation(mode));

    expect(new Set(texts).size).toBe(MODES.length);
    texts.forEach((text, place) => {
      expect(text).toContain(`Isolation ${MODES[place]}:`);
    });
  });

  it('says of every mode but hardware that compute is shared', () => {
    const silent = MODES.filter(
      mode => !msg.isolation(mode).endsWith('compute is shared')
    );

    expect(silent).toEqual(['hardware']);
  });
});

describe('contention', () => {
  it('is a word, and nothing where nobody can tell', () => {
    expect(msg.contention('medium')).toBe('Neighbours: medium use');
    expect(msg.contention('unknown')).toBe('');
    expect(msg.contention(undefined)).toBe('');
  });
});
