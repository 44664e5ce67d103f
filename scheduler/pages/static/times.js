// Times in the reader's own zone, with 24 hours as everywhere in Lab, and the age of what is shown.
import { gettext, locale } from './texts.js';

const today = new Intl.DateTimeFormat(locale(), {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23'
});
const other = new Intl.DateTimeFormat(locale(), {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23'
});

/** Replace the server's UTC times below `root` by local ones. */
export function showTimes(root) {
  for (const element of root.querySelectorAll('time[data-at]')) {
    const at = new Date(Number(element.dataset.at));
    const near = Math.abs(Date.now() - at.getTime()) < 20 * 3_600_000;
    const short = near && element.dataset.dated === undefined;
    element.textContent = (short ? today : other).format(at);
  }
}

let fresh = performance.now();
let trouble = '';

/** The page shows what is true now. */
export function markFresh() {
  fresh = performance.now();
  trouble = '';
}

/** The page could not be refreshed; `text` says why. */
export function markTrouble(text) {
  trouble = text;
}

/** Keep "updated 2 s ago" true, without announcing it every second. */
export function startAge() {
  const element = document.querySelector('[data-age]');
  if (!element) {
    return;
  }
  const show = () => {
    const seconds = Math.round((performance.now() - fresh) / 1000);
    const age =
      seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
    element.textContent = trouble
      ? gettext('%(trouble)s (%(age)s old)', { trouble, age })
      : gettext('updated %(age)s ago', { age });
    element.classList.toggle('stale', Boolean(trouble));
  };
  show();
  setInterval(show, 1000);
}
