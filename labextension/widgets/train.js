/** The Train form. Everything that comes from outside is set as text. */

const LINES = 200;
const FIRST_GPU_MEMORY_GIB = 12;
const MOST_GPU_MEMORY_GIB = 16384;
const MOST_WORKERS = 1024;
const NOTICES = [
  ['', 'what the pool sets (default)'],
  ['SIGUSR1', 'SIGUSR1, so that it can save'],
  ['none', 'no signal before SIGTERM']
];
const EXITS = [
  ['preempted', 'goes on later (default)'],
  ['success', 'has succeeded']
];
const FINAL = ['succeeded', 'failed', 'cancelled'];

function element(tag, className, parent, text = '') {
  const found = document.createElement(tag);
  found.className = className;
  found.textContent = text;
  parent?.append(found);
  return found;
}

function select(parent, label, options, value, onChange) {
  const row = element('label', 'gc-row', parent, '');
  element('span', 'gc-muted', row, label);
  const found = element('select', '', row);
  for (const [key, text] of options) {
    const option = element('option', '', found, text);
    option.value = String(key);
    option.selected = key === value;
  }
  found.onchange = () => onChange(found.value);
}

/** Follow a job over the server's socket, where this page has one; null elsewhere. */
function follow(id, onStart, onMessage) {
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
  let stopped = false;
  let timer = 0;
  let pause = 1000;
  let socket;
  const connect = () => {
    socket = new WebSocket(url);
    socket.onopen = () => {
      onStart();
      socket.send(JSON.stringify({ type: 'follow', job: id, rank: 0 }));
    };
    socket.onmessage = event => {
      pause = 1000;
      onMessage(JSON.parse(event.data));
    };
    socket.onclose = () => {
      if (!stopped) {
        timer = window.setTimeout(connect, pause);
        pause = Math.min(15000, pause * 2);
      }
    };
  };
  connect();
  return () => {
    stopped = true;
    window.clearTimeout(timer);
    socket.close();
  };
}

const ENDED = ['restarting', 'autorestarting', 'terminating', 'dead'];

/** The kernel that made this widget may go while the page stays: nothing pressed would be heard. */
function watchKernel(model, el, form) {
  const note = element('div', 'gc-widget-note', el);
  note.setAttribute('role', 'status');
  const session = model.widget_manager?.context?.sessionContext;
  let isOver = false;
  let since = '';
  const look = (_, status) => {
    if (ENDED.includes(status)) {
      isOver = form.inert = true;
      note.textContent =
        'Not connected any more: the kernel was restarted or shut down. Run the cell again.';
    }
  };
  const lookAtLine = (_, status) => {
    if (!isOver) {
      form.inert = status !== 'connected';
      since = form.inert ? since || new Date().toTimeString().slice(0, 5) : '';
      note.textContent =
        since && `Not connected: what stands here is as of ${since}.`;
    }
  };
  session?.statusChanged.connect(look);
  session?.connectionStatusChanged?.connect(lookAtLine);
  return () => {
    session?.statusChanged.disconnect(look);
    session?.connectionStatusChanged?.disconnect(lookAtLine);
  };
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
    model.set('trouble', '');
    model.save_changes();
  };
  let buttons = [];
  const showSizes = () => {
    for (const [, button] of buttons) {
      button.remove();
    }
    const words = model.get('size_words');
    buttons = model.get('sizes').map((milli, index) => {
      const button = element('button', '', sizes, words[index]);
      button.onclick = () => {
        model.set('gpu_memory_gib', 0);
        set('milli_gpu', milli);
      };
      return [milli, button];
    });
    const byMemory = element('button', '', sizes, 'GiB');
    byMemory.title = 'By memory: the smallest part of a GPU that has it';
    byMemory.onclick = () => {
      set(
        'gpu_memory_gib',
        model.get('gpu_memory_gib') || FIRST_GPU_MEMORY_GIB
      );
    };
    buttons.push([null, byMemory]);
  };
  // What the scheduler refuses, or was not asked about yet, cannot be sent.
  const canSubmit = () =>
    Boolean(model.get('target') && model.get('quota_line'));
  const memory = element('label', 'gc-row', form);
  element('span', 'gc-muted', memory, 'GPU memory of the worker, GiB');
  const gib = element('input', '', memory);
  gib.type = 'number';
  gib.min = gib.step = 0.5;
  gib.max = MOST_GPU_MEMORY_GIB;
  gib.onchange = () => {
    const value = Number(gib.value);
    if (!(value >= 0.5 && value <= MOST_GPU_MEMORY_GIB)) {
      // What was said of the last number is no answer to this one.
      model.set('quota_line', '');
      model.set(
        'trouble',
        `GPU memory: a number of GiB from 0.5 to ${MOST_GPU_MEMORY_GIB}.`
      );
      model.save_changes();
    } else if (value === model.get('gpu_memory_gib')) {
      model.send('quote');
    } else {
      set('gpu_memory_gib', value);
    }
  };
  const showMemory = () => {
    memory.hidden = !model.get('gpu_memory_gib');
    gib.value = model.get('gpu_memory_gib') || '';
  };
  const workers = element('label', 'gc-row', form);
  element('span', 'gc-muted', workers, 'Workers');
  const count = element('input', '', workers);
  count.type = 'number';
  count.min = count.step = 1;
  count.max = MOST_WORKERS;
  count.onchange = () => {
    const value = Number(count.value);
    if (Number.isInteger(value) && value >= 1 && value <= MOST_WORKERS) {
      set('workers', value);
    } else {
      model.set('quota_line', '');
      model.set(
        'trouble',
        `Workers: a whole number from 1 to ${MOST_WORKERS}.`
      );
      model.save_changes();
    }
  };
  const launched = element('div', '', form);
  const showWorkers = () => {
    count.value = model.get('workers');
    launched.textContent = '';
    const choices = model.get('launchers');
    if (choices.length > 0) {
      select(launched, 'Launcher', choices, model.get('launcher'), value =>
        set('launcher', value)
      );
      element('div', 'gc-muted', launched, model.get('proposed'));
    }
  };
  const teams = element('div', '', form);
  const limits = element('div', '', form);
  const settings = element('div', 'gc-muted', form);
  const left = element('div', '', form);
  const more = element('details', '', form);
  element('summary', 'gc-muted', more, 'More…');
  const stops = element('div', '', more);
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
    state.textContent = `${job.name}: ${job.state_text}${step}${why ? ` · ${why}` : ''}`;
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
    settings.textContent = model.get('settings');
    // Until the kernel has asked the scheduler, which a running cell puts off.
    const isAsking = model.get('target') && !model.get('trouble');
    quota.textContent =
      model.get('quota_line') ||
      (isAsking ? 'Asking… A running cell comes first.' : '');
    trouble.textContent = model.get('trouble');
    const chosen = model.get('gpu_memory_gib') ? null : model.get('milli_gpu');
    for (const [milli, button] of buttons) {
      button.setAttribute('aria-pressed', String(milli === chosen));
    }
    const job = model.get('job');
    if (!job?.id) {
      submit.disabled = !canSubmit();
      return;
    }
    showJob(job);
    if (job.id !== followed) {
      followed = job.id;
      stop?.();
      // Its log comes from the start, also when the server is back.
      stop = follow(job.id, () => (lines = []), onMessage);
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
  const showLeft = () => {
    left.textContent = '';
    const names = model.get('left_behind');
    if (names) {
      element('span', 'gc-muted', left, `Stays here: ${names}`);
      select(
        left,
        'They are',
        [
          ['', 'Choose…'],
          ['link', 'linked from my home'],
          ['without', 'left out']
        ],
        model.get('left_out'),
        value => set('left_out', value)
      );
    }
  };
  const showLimits = () => {
    limits.textContent = '';
    select(
      limits,
      'Time limit',
      model.get('time_limits'),
      model.get('max_run_s'),
      value => set('max_run_s', Number(value))
    );
  };
  const showStops = () => {
    stops.textContent = '';
    const signal = model.get('notice_signal');
    select(
      stops,
      'When a stop is announced, the script gets',
      NOTICES,
      signal,
      value => set('notice_signal', value)
    );
    if (signal === 'SIGUSR1') {
      const warning = 'SIGUSR1 ends a script that does not handle it.';
      element('div', 'gc-muted', stops, warning);
    }
    select(
      stops,
      'When it then exits with status 0, the job',
      EXITS,
      model.get('exit_after_signal'),
      value => set('exit_after_signal', value)
    );
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
  model.on('change:left_behind change:left_out', showLeft);
  model.on('change:time_limits change:max_run_s', showLimits);
  model.on('change:gpu_memory_gib', showMemory);
  model.on('change:workers change:launcher change:launchers', showWorkers);
  model.on('change:notice_signal change:exit_after_signal', showStops);
  const stopWatching = watchKernel(model, el, form);
  showTeams();
  showLeft();
  showLimits();
  showMemory();
  showWorkers();
  showStops();
  onSizes();
  return () => {
    model.off('change', show);
    model.off('change:sizes', onSizes);
    model.off('change:trouble', onTrouble);
    model.off('change:teams', showTeams);
    model.off('change:left_behind change:left_out', showLeft);
    model.off('change:time_limits change:max_run_s', showLimits);
    model.off('change:gpu_memory_gib', showMemory);
    model.off('change:workers change:launcher change:launchers', showWorkers);
    model.off('change:notice_signal change:exit_after_signal', showStops);
    stopWatching();
    stop?.();
  };
}

export default { render };
