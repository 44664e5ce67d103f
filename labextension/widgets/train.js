/** The Train form. Everything that comes from outside is set as text. */

const GLYPHS = {
  125: '⅛',
  250: '¼',
  375: '⅜',
  500: '½',
  625: '⅝',
  750: '¾',
  875: '⅞'
};
const LIMITS = [
  [0, "The team's limit"],
  [3600, '1 hour'],
  [7200, '2 hours'],
  [28800, '8 hours'],
  [86400, '1 day']
];
const LINES = 200;
const FINAL = ['succeeded', 'failed', 'cancelled'];

function element(tag, className, parent, text = '') {
  const found = document.createElement(tag);
  found.className = className;
  found.textContent = text;
  parent?.append(found);
  return found;
}

function share(milli) {
  return milli === 0 ? 'CPU' : (GLYPHS[milli] ?? String(milli / 1000));
}

function select(parent, label, options, value, onChange) {
  const row = element('label', 'gc-row', parent, '');
  element('span', 'gc-muted', row, label);
  const found = element('select', 'gc-right', row);
  for (const [key, text] of options) {
    const option = element('option', '', found, text);
    option.value = String(key);
    option.selected = key === value;
  }
  found.onchange = () => onChange(found.value);
}

/** Follow a job over the server's socket, where this page has one; null elsewhere. */
function follow(id, onMessage) {
  const config = document.getElementById('jupyter-config-data');
  if (!config) {
    return null;
  }
  const { baseUrl = '/', token = '' } = JSON.parse(config.textContent || '{}');
  const url = new URL(`${baseUrl}gpucommons/ws`, window.location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  if (token) {
    url.searchParams.set('token', token);
  }
  const socket = new WebSocket(url);
  socket.onopen = () =>
    socket.send(JSON.stringify({ type: 'follow', job: id, rank: 0 }));
  socket.onmessage = event => onMessage(JSON.parse(event.data));
  return () => socket.close();
}

function render({ model, el }) {
  const form = element('div', 'gc-widget', el);
  form.setAttribute('role', 'group');
  form.setAttribute('aria-label', 'Train');
  const head = element('div', 'gc-row', form);
  element('strong', '', head, 'Train');
  const target = element('span', 'gc-muted gc-right', head);
  const sizes = element('div', 'gc-row', form);
  sizes.setAttribute('role', 'group');
  sizes.setAttribute('aria-label', 'GPUs');
  element('span', 'gc-muted', sizes, 'GPUs');
  const set = (name, value) => {
    model.set(name, value);
    // What was said of another choice is not to be read as an answer to this one.
    model.set('quota_line', '');
    model.save_changes();
    model.send('quote');
  };
  let buttons = [];
  const showSizes = () => {
    for (const [, button] of buttons) {
      button.remove();
    }
    buttons = model.get('sizes').map(milli => {
      const button = element('button', '', sizes, share(milli));
      button.onclick = () => set('milli_gpu', milli);
      return [milli, button];
    });
  };
  // What the scheduler refuses, or was not asked about yet, cannot be sent.
  const canSubmit = () =>
    Boolean(model.get('target') && model.get('quota_line'));
  const teams = element('div', '', form);
  select(form, 'Time limit', LIMITS, model.get('max_run_s'), value =>
    set('max_run_s', Number(value))
  );
  const quota = element('div', 'gc-muted', form);
  quota.style.marginTop = '8px';
  const row = element('div', 'gc-row', form);
  const submit = element('button', 'gc-primary', row, 'Submit');
  const state = element('span', '', row);
  state.setAttribute('aria-live', 'polite');
  const refresh = element('button', '', row, 'Refresh');
  refresh.hidden = true;
  refresh.onclick = () => model.send('refresh');
  const trouble = element('div', 'gc-trouble', form);
  trouble.setAttribute('role', 'alert');
  const log = element('pre', '', form);
  log.hidden = true;
  let lines = [];
  let followed = '';
  let stop = null;

  const showJob = job => {
    const step = job.progress
      ? ` · step ${job.progress.step}${job.progress.total_steps ? ` of ${job.progress.total_steps}` : ''}`
      : '';
    const why = job.ended_text ?? job.reason?.text ?? '';
    state.textContent = `${job.name}: ${job.state}${step}${why ? ` · ${why}` : ''}`;
    submit.disabled = !FINAL.includes(job.state) || !canSubmit();
  };
  const onMessage = message => {
    if (message.type === 'job' && message.job.id === followed) {
      showJob(message.job);
    } else if (message.type === 'log' && message.job === followed) {
      lines = lines.concat(message.lines).slice(-LINES);
      log.hidden = lines.length === 0;
      log.textContent = lines.join('\n');
      log.scrollTop = log.scrollHeight;
    }
  };
  const show = () => {
    target.textContent = model.get('target');
    quota.textContent = model.get('quota_line');
    trouble.textContent = model.get('trouble');
    for (const [milli, button] of buttons) {
      button.setAttribute(
        'aria-pressed',
        String(milli === model.get('milli_gpu'))
      );
    }
    const job = model.get('job');
    if (!job?.id) {
      submit.disabled = !canSubmit();
      return;
    }
    showJob(job);
    if (job.id !== followed) {
      followed = job.id;
      lines = [];
      stop?.();
      stop = follow(job.id, onMessage);
      refresh.hidden = stop !== null;
    }
  };
  const showTeams = () => {
    teams.textContent = '';
    const names = model.get('teams');
    if (names.length > 1) {
      select(
        teams,
        'Team',
        names.map(name => [name, name]),
        model.get('team'),
        name => set('team', name)
      );
    }
  };
  submit.onclick = () => {
    submit.disabled = true;
    state.textContent = 'Submitting…';
    model.send('submit');
  };
  const onTrouble = () => {
    if (model.get('trouble')) {
      state.textContent = '';
      submit.disabled = !canSubmit();
    }
  };
  const onSizes = () => {
    showSizes();
    show();
  };
  model.on('change', show);
  model.on('change:sizes', onSizes);
  model.on('change:trouble', onTrouble);
  model.on('change:teams', showTeams);
  showTeams();
  onSizes();
  return () => {
    model.off('change', show);
    model.off('change:sizes', onSizes);
    model.off('change:trouble', onTrouble);
    model.off('change:teams', showTeams);
    stop?.();
  };
}

export default { render };
