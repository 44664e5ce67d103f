import { expect, it } from 'vitest';

import { fileName, visible } from './visible';

it('shows what turns the direction of writing, breaks a line or is not seen', () => {
  expect(visible('report\u202Etxt.py')).toBe('report\\u{202e}txt.py');
  expect(visible('a\nb\u200Bc\u2066')).toBe('a\\u{000a}b\\u{200b}c\\u{2066}');
});

it('shows fillers and blanks that pass for letters, and a name of blanks alone', () => {
  expect(visible('a\u3164b\u2800c\uFFA0')).toBe(
    'a\\u{3164}b\\u{2800}c\\u{ffa0}'
  );
  expect(visible('\u00A0')).toBe('\\u{00a0}');
  expect(visible(' \u2003')).toBe('\\u{0020}\\u{2003}');
  expect(visible('1\uFE0F')).toBe('1\\u{fe0f}');
  expect(fileName('data/\u00A0')).toBe('\\u{00a0}');
});

it('leaves all other names as they are', () => {
  for (const name of [
    'Übung 1.py',
    'данные/数据.csv',
    '📈.ipynb',
    'نتائج',
    '❤️.py',
    'Screenshot at 3.04\u202FPM.png',
    ''
  ]) {
    expect(visible(name)).toBe(name);
  }
});
