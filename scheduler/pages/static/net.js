// Requests with the token that the hub's check for forged requests asks for.
import { gettext } from './texts.js';

const xsrf = document.querySelector('meta[name=gc-xsrf]')?.content ?? '';

/** Fetch from our own service; a login redirect is never followed. */
export function ask(url, options = {}) {
  return fetch(url, {
    ...options,
    redirect: 'manual',
    cache: 'no-store',
    headers: { 'X-XSRFToken': xsrf, ...options.headers }
  });
}

const NO_ANSWER = gettext(
  'No answer came: it may have been done all the same. See what the page says before you try again.'
);
const NOT_SENT = gettext(
  'This could not be sent: reload the page and try again.'
);
const SERVER_FAILED = 500;

/**
 * Send JSON; resolves to the answer, or throws an Error with the server's sentence and, as `code`,
 * its name for programs.
 */
export async function post(url, value, signal) {
  const answer = await ask(url, {
    method: 'POST',
    body: JSON.stringify(value),
    headers: { 'Content-Type': 'application/json' },
    signal
  }).catch(error => {
    throw error.name === 'AbortError' ? error : new Error(NO_ANSWER);
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    // Without a sentence of ours it was a proxy that lost the server on the way.
    const lost = answer.status >= SERVER_FAILED ? NO_ANSWER : NOT_SENT;
    throw Object.assign(new Error(body.message ?? lost), { code: body.error });
  }
  return body;
}

const LAST_RELOAD = 'gpucommons-reloaded';
const RELOAD_AGAIN_MS = 60_000;

/**
 * Log in anew without a question, as a hub that was restarted does for whom it still knows: by
 * loading the page. False where that would lose what somebody edits, or was tried a moment ago.
 */
export function logInAgain() {
  const last = Number(window.sessionStorage.getItem(LAST_RELOAD) ?? 0);
  const active = document.activeElement;
  const editing =
    document.querySelector('[data-dirty], dialog[open]') !== null ||
    (active?.matches('input, textarea') &&
      active.value !== active.defaultValue);
  if (editing || Date.now() - last < RELOAD_AGAIN_MS) {
    return false;
  }
  window.sessionStorage.setItem(LAST_RELOAD, String(Date.now()));
  location.reload();
  return true;
}

/** Call `step` again and again: `period` after a success, slower and slower after failures. */
export function repeat(step, period, slowest = 30_000) {
  let wait = period;
  const run = async () => {
    // A hidden page asks rarely, but it still asks: a granted ticket must be followed.
    try {
      const more = await step();
      wait = document.hidden ? Math.max(period, 10_000) : period;
      if (more === false) {
        return;
      }
    } catch (error) {
      wait = Math.min(slowest, wait * 2);
      step.failed?.(error, wait);
    }
    setTimeout(run, wait);
  };
  setTimeout(run, period);
}
