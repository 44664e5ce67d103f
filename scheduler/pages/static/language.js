// uPlot writes numbers in the browser's language, and draws nothing where that is none: with LANG=C
// Chromium calls it en-US@posix.
try {
  Intl.getCanonicalLocales(window.navigator.language);
} catch {
  Object.defineProperty(window.navigator, 'language', { value: 'en-US' });
}
