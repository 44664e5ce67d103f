import { expect, it } from 'vitest';

import { pagesBy } from './pages';

it('makes a page once', async () => {
  let made = 0;
  const pages = pagesBy(() => Promise.resolve(++made));

  expect([await pages.get('a'), await pages.get('a')]).toEqual([1, 1]);
  pages.forget('a');
  expect(await pages.get('a')).toBe(2);
});

it('makes a page anew that could not be made', async () => {
  const made = [
    () => Promise.reject(new Error('away')),
    () => Promise.resolve(1)
  ];
  const pages = pagesBy(() => made.shift()?.() ?? Promise.resolve(2));

  await expect(pages.get('a')).rejects.toThrow('away');
  expect(await pages.get('a')).toBe(1);
});
