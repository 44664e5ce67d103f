/** Tells the hub's pages of GPU Commons which language somebody chose in Lab, where one browser shows both. */

const COOKIE = 'gpucommons-language';
/** That the cookie is ours: on a path of its own, it cannot be read here. */
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
  const pages = `${hubPrefix.replace(/hub\/?$/, '')}services/gpucommons/`;
  const cookie = (value: string, seconds: number) =>
    `${COOKIE}=${value}; path=${pages}; max-age=${seconds}; samesite=lax`;
  if (!/^[A-Za-z]{2,3}([_-]\w+)*$/.test(language)) {
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
