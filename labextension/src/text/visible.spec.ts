import { expect, it } from 'vitest';

import { visible } from './visible';

it('shows what turns the direction of writing, breaks a line or is not seen', () => {
  expect(visible('report\u202Etxt.py')).toBe('report\\u{202e}txt.py');
  expect(visible('a\nb\u200Bc\u2066')).toBe('a\\u{000a}b\\u{200b}c\\u{2066}');
});

it('leaves all other names as they are', () => {
  for (const name of ['Übung 1.py', 'данные/数据.csv', '📈.ipynb', 'نتائج']) {
    expect(visible(name)).toBe(name);
  }
});
