// The ticket page: shows the place as it changes, and follows the notebook when it runs.
import { ask, logInAgain, repeat } from './net.js';
import { gettext } from './texts.js';
import { markFresh, showTimes } from './times.js';

const PERIOD_MS = 2000;

/** Start following the ticket, if this is its page. */
export function startTicket() {
  const page = document.querySelector('[data-ticket]');
  if (
    !page ||
    page.dataset.phase === 'over' ||
    page.dataset.phase === 'running'
  ) {
    return;
  }
  const status = page.querySelector('[data-status]');
  const step = async () => {
    const answer = await ask(page.dataset.ticket, {
      headers: { Accept: 'application/json' }
    });
    if (answer.status === 401) {
      status.textContent = gettext(
        'Your login has ended. Your place is kept: reload the page to log in.'
      );
      return !logInAgain();
    }
    if (!answer.ok) {
      throw new Error(String(answer.status));
    }
    status.textContent = '';
    markFresh();
    return show(page, await answer.json());
  };
  step.failed = (_, wait) => {
    status.textContent = gettext(
      'GPU Commons cannot be reached. Your place is kept; trying again in %(seconds)s s.',
      { seconds: Math.round(wait / 1000) }
    );
  };
  repeat(step, PERIOD_MS);
}

function show(page, state) {
  page.dataset.phase = state.phase;
  document.title = `${state.title} · GPU Commons`;
  for (const element of page.querySelectorAll('[data-field]')) {
    const text = state[element.dataset.field] ?? '';
    if (element.textContent !== text) {
      element.textContent = text;
    }
  }
  for (const element of page.querySelectorAll('[data-said]')) {
    element.lang = state.said_in;
  }
  showLikely(page, state.likely_bar);
  showHolders(page.querySelector('[data-holders]'), state.holders);
  showBlocking(page.querySelector('[data-blocking]'), state.blocking);
  showTake(page.querySelector('[data-take]'), state.take);
  if (state.follow) {
    page.querySelector('[data-follow]').href = state.follow;
    location.assign(state.follow);
    return false;
  }
  // It goes on for a ticket alone: of another one's notebook there is nothing to follow.
  return state.phase !== 'over' && state.phase !== 'running';
}

function showLikely(page, line) {
  const box = page.querySelector('[data-likely]');
  box.toggleAttribute('hidden', !line);
  if (!line) {
    return;
  }
  const [waited, likely, now] = box.querySelectorAll('rect');
  waited.setAttribute('width', `${line.now}%`);
  now.setAttribute('x', `${line.now}%`);
  likely.setAttribute('x', `${line.left}%`);
  likely.setAttribute('width', `${line.width}%`);
  box.querySelector('[data-likely-from]').dataset.at = line.from_ms;
  box.querySelector('[data-likely-to]').dataset.at = line.to_ms;
  showTimes(box);
}

function showHolders(box, holders) {
  box.hidden = holders.length === 0;
  const lines = holders.map(holder => {
    const line = document.createElement('li');
    const text = document.createElement('span');
    const frees = document.createElement('span');
    text.textContent = holder.text;
    frees.textContent = holder.frees;
    frees.className = 'muted small';
    line.append(text, frees);
    return line;
  });
  box.querySelector('ul').replaceChildren(...lines);
}

function showBlocking(box, blocking) {
  box.hidden = !blocking;
  if (!blocking) {
    return;
  }
  box.querySelector('strong').textContent = blocking.text;
  const form = box.querySelector('form');
  if (form) {
    form.hidden = !blocking.holder;
    form.elements.holder.value = blocking.holder;
    form.querySelector('button').textContent = blocking.label;
  }
}

function showTake(form, take) {
  if (!form) {
    return;
  }
  form.hidden = !take;
  if (take) {
    form.elements.milli_gpu.value = take.milli_gpu;
    form.querySelector('button').textContent = take.label;
  }
}
