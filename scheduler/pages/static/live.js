// Keeps the parts marked `data-live` fresh: the page is asked for again and changed parts are
// swapped. The server renders and escapes; nothing is put together from strings here.
import { ask, logInAgain, repeat } from './net.js';
import { gettext } from './texts.js';
import { markFresh, markTrouble, showTimes } from './times.js';

const PERIOD_MS = 3000;

/** Start refreshing, if the page has live parts. */
export function startLive() {
  if (!document.querySelector('[data-live]')) {
    return;
  }
  repeat(look, PERIOD_MS);
  // A dialog gives the focus back to what opened it, which a refresh may have swapped meanwhile.
  let left = '';
  document.addEventListener('focusin', event => {
    if (event.target.closest('[data-live]')) {
      left = event.target.id;
    }
  });
  document.addEventListener(
    'close',
    event => {
      const active = document.activeElement;
      // Until the next picture it may still be on what was pressed in the dialog.
      if (left && (active === document.body || event.target.contains(active))) {
        document.getElementById(left)?.focus();
      }
    },
    // It does not bubble.
    true
  );
}

/** Ask once: also right after a change, which nobody should see as it was. */
export async function look() {
  const answer = await ask(location.href, {
    headers: { Accept: 'text/html' }
  });
  const ended = answer.type === 'opaqueredirect' || answer.status === 401;
  if (ended && logInAgain()) {
    return false;
  }
  if (ended || answer.status === 403) {
    // It may be a hub that is coming back: the page asks again.
    markTrouble(gettext('login ended: reload the page'));
    return true;
  }
  if (!answer.ok) {
    throw new Error(String(answer.status));
  }
  swap(new DOMParser().parseFromString(await answer.text(), 'text/html'));
  markFresh();
  return true;
}
look.failed = () => markTrouble(gettext('not reachable, trying again'));

function swap(fresh) {
  for (const old of document.querySelectorAll('[data-live]')) {
    const next = fresh.getElementById(old.id);
    if (!next || old.dataset.dirty || holdsWork(old)) {
      continue;
    }
    showTimes(next);
    keepOpen(old, next);
    if (old.isEqualNode(next)) {
      continue;
    }
    const focused = old.contains(document.activeElement)
      ? document.activeElement.id
      : '';
    old.replaceChildren(...document.adoptNode(next).childNodes);
    if (focused) {
      document.getElementById(focused)?.focus();
    }
  }
}

// What somebody has opened to read stays open.
function keepOpen(old, fresh) {
  const opened = old.querySelectorAll('details[open]');
  const ids = new Set(Array.from(opened, one => one.id));
  for (const one of fresh.querySelectorAll('details')) {
    one.open = ids.has(one.id);
  }
}

// What somebody types in, or stands on without a name to come back to, stays as it is.
function holdsWork(element) {
  const active = document.activeElement;
  return (
    element.contains(active) &&
    (active.matches('input, textarea') || !active.id)
  );
}
