// Light or dark as chosen on JupyterHub's own pages, before anything is drawn; the system's otherwise.
'use strict';

const THEME = 'jupyterhub-bs-theme';
const system = window.matchMedia('(prefers-color-scheme: dark)');

function shownTheme() {
  const chosen = window.localStorage.getItem(THEME);
  if (chosen === 'light' || chosen === 'dark') {
    return chosen;
  }
  return system.matches ? 'dark' : 'light';
}

function showTheme() {
  document.documentElement.dataset.bsTheme = shownTheme();
}

showTheme();
system.addEventListener('change', showTheme);
document.addEventListener('DOMContentLoaded', () => {
  document.querySelector('[data-theme]')?.addEventListener('click', () => {
    window.localStorage.setItem(
      THEME,
      shownTheme() === 'dark' ? 'light' : 'dark'
    );
    showTheme();
  });
});
