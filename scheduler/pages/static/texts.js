// What scripts say, in the language of the page: it brings the translations along, none for English.

const found = document.getElementById('texts')?.textContent;
const texts = found ? JSON.parse(found) : {};

/** The text in the page's language; `%(name)s` stands for a value. */
export function gettext(message, values = {}) {
  return (texts[message] ?? message).replace(
    /%\((\w+)\)s/g,
    (_, name) => values[name]
  );
}

/**
 * How the reader writes dates in the language of the page: as the browser says, where it speaks it.
 *
 * All that writes dates and numbers here asks this, so that none of it ends at a name that is none:
 * with LANG=C Chromium says en-US@posix.
 */
export function locale() {
  const { lang } = document.documentElement;
  const speaks = one => one.split('-')[0] === lang && isName(one);
  return window.navigator.languages.find(speaks) ?? lang;
}

function isName(one) {
  try {
    return Intl.getCanonicalLocales(one).length > 0;
  } catch {
    return false;
  }
}
