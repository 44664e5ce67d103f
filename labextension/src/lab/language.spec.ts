import { beforeEach, expect, it } from 'vitest';

import { languageCookie } from './language';

let told: Map<string, string>;
const storage = {
  getItem: (key: string) => told.get(key) ?? null,
  setItem: (key: string, value: string) => void told.set(key, value),
  removeItem: (key: string) => void told.delete(key)
};

beforeEach(() => {
  told = new Map();
});

it('tells the pages of a language that was chosen in Lab', () => {
  expect(languageCookie('de-DE', '/base/hub/', storage)).toBe(
    'gpucommons-language=de-DE; path=/base/; max-age=31536000; samesite=lax'
  );
});

it('leaves the pages alone where no language was chosen', () => {
  expect(languageCookie('en', '/hub/', storage)).toBeNull();
});

it('says a language once, and leaves what is chosen on the pages then', () => {
  languageCookie('de-DE', '/hub/', storage);
  expect(languageCookie('de-DE', '/hub/', storage)).toBeNull();
  expect(languageCookie('fr-FR', '/hub/', storage)).toContain('fr-FR');
});

it('takes back what it said when Lab is English again', () => {
  languageCookie('de-DE', '/hub/', storage);
  expect(languageCookie('en', '/hub/', storage)).toContain('max-age=0');
  expect(languageCookie('en', '/hub/', storage)).toBeNull();
});

it('puts nothing into a cookie that is no language', () => {
  expect(languageCookie('de; path=/', '/hub/', storage)).toBeNull();
});
