/** The live GPU tile. Everything that comes from outside is set as text. */

const SHOWN = 300; // Five minutes, one sample per second.
const GLYPHS = {
  125: '⅛',
  250: '¼',
  375: '⅜',
  500: '½',
  625: '⅝',
  750: '¾',
  875: '⅞'
};

function element(tag, className, parent, text = '') {
  const found = document.createElement(tag);
  found.className = className;
  found.textContent = text;
  parent?.append(found);
  return found;
}

function share(milli) {
  const whole = Math.floor(milli / 1000);
  const rest = milli % 1000;
  if (rest === 0) {
    return String(whole);
  }
  return GLYPHS[rest] ? `${whole || ''}${GLYPHS[rest]}` : String(milli / 1000);
}

/** The server's socket, where this page belongs to a Jupyter server with our extension. */
export function openSocket(onMessage, onLost) {
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
  let closed = false;
  let timer = 0;
  let pause = 1000;
  let socket;
  const connect = () => {
    socket = new WebSocket(url);
    socket.onmessage = event => {
      pause = 1000;
      onMessage(JSON.parse(event.data), message =>
        socket.send(JSON.stringify(message))
      );
    };
    socket.onclose = () => {
      if (!closed) {
        onLost();
        timer = window.setTimeout(connect, pause);
        pause = Math.min(15000, pause * 2);
      }
    };
  };
  connect();
  return () => {
    closed = true;
    window.clearTimeout(timer);
    socket.close();
  };
}

const ENDED = ['restarting', 'autorestarting', 'terminating', 'dead'];

/** The kernel that made this widget may go; the server's socket, where there is one, goes on. */
function watchKernel(model, el, isLive) {
  const note = element('div', 'gc-widget-note', el);
  note.setAttribute('role', 'status');
  const session = model.widget_manager?.context?.sessionContext;
  const look = (_, status) => {
    if (ENDED.includes(status)) {
      note.textContent = isLive
        ? 'The kernel was restarted or shut down: this tile lasts until the page is closed. Run the cell again to keep it.'
        : 'Not connected any more: the kernel was restarted or shut down. Run the cell again.';
      el.querySelectorAll('button').forEach(button => (button.disabled = true));
    }
  };
  session?.statusChanged.connect(look);
  return () => session?.statusChanged.disconnect(look);
}

function render({ model, el }) {
  const tile = element('div', 'gc-widget', el);
  tile.setAttribute('role', 'group');
  tile.setAttribute('aria-label', 'My GPU');
  const head = element('div', 'gc-row', tile);
  const name = element('strong', '', head, 'My GPU');
  const pill = element('span', 'gc-muted gc-right', head);
  const memoryRow = element('div', 'gc-row', tile);
  element('span', 'gc-muted', memoryRow, 'Memory');
  const memory = element('span', 'gc-right', memoryRow);
  const bar = element('div', 'gc-bar', tile);
  const filled = element('div', '', bar);
  const computeRow = element('div', 'gc-row', tile);
  element('span', 'gc-muted', computeRow, 'Compute, last 5 min');
  const compute = element('span', 'gc-right', computeRow);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', `0 0 ${SHOWN} 100`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const line = document.createElementNS(
    'http://www.w3.org/2000/svg',
    'polyline'
  );
  line.setAttribute('class', 'gc-line');
  line.setAttribute('vector-effect', 'non-scaling-stroke');
  svg.append(line);
  tile.append(svg);
  let samples = [];

  const showSlice = slice => {
    name.textContent = slice
      ? `${share(slice.milli_gpu)} of ${slice.gpu_kind}`
      : 'My GPU';
    pill.textContent = slice?.simulated ? 'simulated' : '';
  };
  const showText = text => {
    memory.textContent = text;
    compute.textContent = '';
    filled.style.width = '0';
    line.setAttribute('points', '');
  };
  const showSamples = () => {
    const last = samples[samples.length - 1];
    if (!last) {
      return;
    }
    const used = last.memory_used_mib;
    const limit = last.memory_limit_mib;
    memory.textContent =
      used === null
        ? 'unknown'
        : `${(used / 1024).toFixed(1)} of ${(limit / 1024).toFixed(1)} GiB`;
    filled.style.width = `${limit ? Math.min(100, (100 * (used ?? 0)) / limit) : 0}%`;
    bar.classList.toggle('gc-over', (used ?? 0) > limit);
    compute.textContent =
      last.compute_percent === null ? 'unknown' : `${last.compute_percent} %`;
    svg.setAttribute(
      'aria-label',
      `Compute over the last five minutes, now ${compute.textContent}`
    );
    const first = SHOWN - samples.length;
    const points = samples.map(
      (s, i) => `${first + i},${98 - 0.96 * (s.compute_percent ?? 0)}`
    );
    line.setAttribute('points', points.join(' '));
  };
  let since = '';
  const onMessage = message => {
    since = '';
    if (message.type === 'usage') {
      samples = samples.concat(message.samples).slice(-SHOWN);
      if (message.state === 'ok') {
        showSamples();
      } else {
        samples = [];
        showText(
          message.state === 'no-gpu'
            ? 'This notebook has no GPU.'
            : 'no GPU data'
        );
      }
    } else if (message.type === 'lease' || message.type === 'hello') {
      showSlice(message.lease?.slice ?? null);
    }
  };
  const close = openSocket(onMessage, () => {
    samples = [];
    since ||= new Date().toTimeString().slice(0, 5);
    showText(`Not connected since ${since}. Connecting again…`);
  });
  if (close === null) {
    const show = () => showText(model.get('text'));
    model.on('change:text', show);
    show();
    const row = element('div', 'gc-row', tile);
    element('button', '', row, 'Refresh').onclick = () => model.send('refresh');
    const stopWatching = watchKernel(model, el, false);
    return () => {
      model.off('change:text', show);
      stopWatching();
    };
  }
  const stopWatching = watchKernel(model, el, true);
  return () => {
    close();
    stopWatching();
  };
}

export default { render };
