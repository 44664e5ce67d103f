// The quota table: every edit is checked by the scheduler's own layout before it can be saved.
import { look } from './live.js';
import { post } from './net.js';
import { gettext } from './texts.js';

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
  let replaying = null;
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
  // On the form, which stays: a refresh puts new buttons in the place of the old ones.
  form.addEventListener('click', event => {
    const button = event.target.closest('[data-last-week]');
    if (button && button.ariaDisabled !== 'true') {
      replaying = new AbortController();
      replay(form, replaying.signal);
    }
  });
  form.addEventListener('reset', event => {
    // An answer about edits that are gone would unlock the button again.
    running?.abort();
    replaying?.abort();
    clearTimeout(timer);
    // At once and by hand: cleared up a moment later, an edit made meanwhile would lose its buttons.
    event.preventDefault();
    for (const input of form.querySelectorAll('input')) {
      input.value = input.defaultValue;
    }
    edited(form);
    clear(form);
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
    mark(form, verdict.ok ? [] : verdict.cell);
    part(form, 'changes').replaceChildren(...verdict.changes.map(line));
    lock(form, !verdict.ok || verdict.changes.length === 0);
  } catch (error) {
    if (error.name !== 'AbortError') {
      say(form, error.message, false);
    }
  }
}

async function replay(form, signal) {
  // Not disabled: that would throw the focus of who pressed it away.
  part(form, 'last-week').ariaDisabled = 'true';
  part(form, 'replayed').textContent = gettext(
    'Last week is played again: up to a minute…'
  );
  try {
    const rows = edited(form);
    const answer = await post(form.dataset.replay, { rows }, signal);
    part(form, 'replayed').replaceChildren(
      sentence(answer.text),
      comparison(answer.rows)
    );
  } catch (error) {
    if (error.name !== 'AbortError') {
      part(form, 'replayed').textContent = error.message;
    }
  }
  part(form, 'last-week').ariaDisabled = null;
  lock(form, form.querySelector('button[type=submit]').disabled);
}

function sentence(text) {
  const line = document.createElement('p');
  line.className = 'small muted';
  line.textContent = text;
  return line;
}

function comparison(rows) {
  const table = document.createElement('table');
  table.className = 'stack replayed';
  const body = table.createTBody();
  const [header, ...others] = rows;
  const titles = table.createTHead().insertRow();
  header?.forEach(text => titles.append(heading(text, 'col')));
  for (const [name, ...cells] of others) {
    const row = body.insertRow();
    row.append(heading(name, 'row'));
    cells.forEach((text, number) => {
      const cell = row.insertCell();
      cell.textContent = text;
      cell.dataset.label = header[number + 1];
    });
  }
  return table;
}

function heading(text, scope) {
  const cell = document.createElement('th');
  cell.textContent = text;
  cell.scope = scope;
  return cell;
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
    say(form, `${gettext('Saved.')} ${verdict.text}`, true);
    // Until it is read, a refresh would take this sentence away.
    form.dataset.dirty = 'yes';
    // The change stands in the list below as soon as it is said.
    look().catch(look.failed);
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
      // Another tab, or another admin, may have saved since this page was loaded.
      const was = Object.fromEntries(
        inputs.map(input => [input.name, input.defaultValue])
      );
      const { team, pool } = row.dataset;
      rows.push({ team, pool, ...typed, was });
    }
  }
  return rows;
}

function clear(form) {
  delete form.dataset.dirty;
  lock(form, true);
  leave(form, part(form, 'discard'));
  part(form, 'discard').hidden = true;
  mark(form, []);
  part(form, 'changes').replaceChildren();
  part(form, 'replayed').replaceChildren();
  say(form, '', true);
}

function say(form, text, good) {
  const verdict = part(form, 'verdict');
  verdict.textContent = text;
  part(form, 'sum').hidden = text !== '';
  verdict.classList.toggle('good', good);
  verdict.classList.toggle('bad', !good);
}

// Marks what is wrong: the cell that cannot be read, where there is none all that was changed.
function mark(form, cell) {
  for (const input of form.querySelectorAll('input')) {
    const { team, pool } = input.closest('tr').dataset;
    const wrong = cell
      ? cell.join() === [team, pool, input.name].join()
      : input.classList.contains('changed');
    if (wrong) {
      input.ariaInvalid = 'true';
      input.setAttribute('aria-describedby', 'quota-verdict');
    } else {
      input.ariaInvalid = null;
      input.removeAttribute('aria-describedby');
    }
  }
}

function lock(form, locked) {
  const save = form.querySelector('button[type=submit]');
  // The past may be tried under quotas that are not valid yet: the answer says why not.
  const none = edited(form).length === 0;
  for (const [button, disabled] of [
    [save, locked],
    [part(form, 'last-week'), none]
  ]) {
    if (disabled) {
      leave(form, button);
    }
    button.disabled = disabled;
  }
}

// Takes the focus from a button that goes away to what is said beside it, instead of nowhere.
function leave(form, button) {
  if (document.activeElement === button) {
    form.querySelector('#said-of-quotas').focus();
  }
}

function part(form, name) {
  return form.querySelector(`[data-${name}]`);
}

function line(text) {
  const item = document.createElement('li');
  item.textContent = text;
  return item;
}
