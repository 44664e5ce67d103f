/** Tells the pages of the hub and of GPU Commons which language somebody chose in Lab, where one browser shows both. */

const COOKIE = 'gpucommons-language';
/** That the cookie is Lab's: one that was chosen on the pages is not taken back here. */
const TOLD = 'gpucommons:pages-language';
const YEAR_S = 365 * 24 * 3600;

/**
 * The cookie to set, null for none. English is also the language of who chose none: it only takes back
 * what another one said before, and leaves what the browser asks for.
 */
export function languageCookie(
  language: string,
  hubPrefix: string,
  told: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
): string | null {
  const base = hubPrefix.replace(/hub\/?$/, '');
  const cookie = (value: string, seconds: number) =>
    `${COOKIE}=${value}; path=${base}; max-age=${seconds}; samesite=lax`;
  if (!/^[A-Za-z]{2,3}([_-][A-Za-z0-9]+)*$/.test(language)) {
    return null;
  }
  if (told.getItem(TOLD) === language) {
    // Whatever was chosen on the pages since then holds.
    return null;
  }
  if (!language.startsWith('en')) {
    told.setItem(TOLD, language);
    return cookie(language, YEAR_S);
  }
  if (told.getItem(TOLD) === null) {
    return null;
  }
  told.removeItem(TOLD);
  return cookie('', 0);
}
