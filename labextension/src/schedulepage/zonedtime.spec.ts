import { expect, it } from 'vitest';

import { zonedWords } from './zonedtime';

const TWO = Date.UTC(2026, 10, 24, 1);

it('shows times as the clock of the schedule does, whatever the reader’s says', () => {
  expect(zonedWords(TWO, 'Europe/Berlin')).toBe('Tue 24 Nov 02:00');
  expect(zonedWords(TWO, 'America/St_Johns')).toBe('Mon 23 Nov 21:30');
});

it('shows UTC where the browser knows no such zone', () => {
  expect(zonedWords(TWO, 'Mars/Base')).toBe('Tue 24 Nov 01:00');
});
