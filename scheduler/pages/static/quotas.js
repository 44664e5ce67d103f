// The quota table: every edit is checked by the scheduler's own layout before it can be saved.
import { post } from './net.js';

const PAUSE_MS = 150;
const SAID_MS = 6000;

/** Start checking edits, if quotas may be edited here. */
export function startQuotas() {
  const form = document.querySelector('#quotas[data-check]');
  if (!form) {
    return;
  }
  let timer = 0;
  let running = null;
  form.addEventListener('input', () => {
    const rows = edited(form);
    lock(form, true);
    running?.abort();
    clearTimeout(timer);
    if (rows.length === 0) {
      clear(form);
      return;
    }
    form.dataset.dirty = 'yes';
    part(form, 'discard').hidden = false;
    timer = setTimeout(() => {
      running = new AbortController();
      check(form, rows, running.signal);
    }, PAUSE_MS);
  });
  form.addEventListener('reset', () => {
    // An answer about edits that are gone would unlock the button again.
    running?.abort();
    clearTimeout(timer);
    setTimeout(() => {
      edited(form);
      clear(form);
    });
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    running?.abort();
    clearTimeout(timer);
    save(form);
  });
}

async function check(form, rows, signal) {
  try {
    const verdict = await post(form.dataset.check, { rows }, signal);
    say(form, verdict.text, verdict.ok);
    part(form, 'changes').replaceChildren(...verdict.changes.map(line));
    lock(form, !verdict.ok || verdict.changes.length === 0);
  } catch (error) {
    if (error.name !== 'AbortError') {
      say(form, error.message, false);
    }
  }
}

async function save(form) {
  lock(form, true);
  try {
    const verdict = await post(form.dataset.save, { rows: edited(form) });
    for (const input of form.querySelectorAll('input')) {
      input.defaultValue = input.value;
    }
    edited(form);
    clear(form);
    say(form, `Saved. ${verdict.text}`, true);
    // Until it is read, a refresh would take this sentence away.
    form.dataset.dirty = 'yes';
    setTimeout(() => edited(form).length || delete form.dataset.dirty, SAID_MS);
  } catch (error) {
    say(form, error.message, false);
  }
}

function edited(form) {
  const rows = [];
  for (const row of form.querySelectorAll('tr[data-team]')) {
    const inputs = [...row.querySelectorAll('input')];
    for (const input of inputs) {
      input.classList.toggle(
        'changed',
        input.value.trim() !== input.defaultValue
      );
    }
    if (inputs.some(input => input.classList.contains('changed'))) {
      const typed = Object.fromEntries(
        inputs.map(input => [input.name, input.value.trim()])
      );
      rows.push({ team: row.dataset.team, pool: row.dataset.pool, ...typed });
    }
  }
  return rows;
}

function clear(form) {
  delete form.dataset.dirty;
  lock(form, true);
  part(form, 'discard').hidden = true;
  part(form, 'changes').replaceChildren();
  say(form, '', true);
}

function say(form, text, good) {
  const verdict = part(form, 'verdict');
  verdict.textContent = text;
  part(form, 'sum').hidden = text !== '';
  verdict.classList.toggle('good', good);
  verdict.classList.toggle('bad', !good);
}

function lock(form, locked) {
  form.querySelector('button[type=submit]').disabled = locked;
}

function part(form, name) {
  return form.querySelector(`[data-${name}]`);
}

function line(text) {
  const item = document.createElement('li');
  item.textContent = text;
  return item;
}
