// The slice of this notebook server in VS Code's status bar: GPU use, memory, and when an idle GPU goes back.
// It hears what the panel in Lab hears, over the same websocket, and has no settings and no commands.
'use strict';

const RATHER_OFTEN_MS = 1000;
const AT_MOST_MS = 30_000;
const MINUTE_MS = 60_000;
const TIME_IS_UP = 'idle: its time is up';
/** In the kernel's tables. */
const LISTENS = '0A';

/** `½` for what people call so; else thousandths as a decimal. */
function share(milli) {
  const named = { 125: '⅛', 250: '¼', 500: '½', 750: '¾' };
  const whole = Math.floor(milli / 1000);
  const rest = named[milli % 1000];
  if (milli % 1000 === 0) {
    return String(whole);
  }
  return rest ? `${whole || ''}${rest}` : String(milli / 1000);
}

function gib(mib) {
  return (mib / 1024).toFixed(1);
}

function left(ms) {
  const minutes = Math.ceil(Math.max(0, ms) / MINUTE_MS);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/**
 * The item's text and what it says when pointed at; null where there is no GPU to speak of.
 * `lease` and `sample` are as the websocket tells them, `now` is in milliseconds UTC.
 */
function shown(lease, sample, now) {
  if (!lease?.slice && !sample) {
    return null;
  }
  const parts = [
    `GPU ${lease?.slice ? share(lease.slice.milli_gpu) : ''}`.trim()
  ];
  if (lease?.parked_ms) {
    return {
      text: `${parts[0]} parked`,
      tip: 'Others have the GPU until a cell runs.',
      warns: false
    };
  }
  const percent = sample?.compute_percent;
  if (percent !== null && percent !== undefined) {
    parts.push(`${percent} %`);
  }
  if (
    sample &&
    sample.memory_used_mib !== null &&
    sample.memory_used_mib !== undefined
  ) {
    parts.push(
      `${gib(sample.memory_used_mib)}/${gib(sample.memory_limit_mib)} GiB`
    );
  }
  if (!sample) {
    parts.push('no data');
  }
  const idle = lease?.idle ?? {};
  const returns = idle.returns_ms ?? null;
  if (returns !== null) {
    // VS Code ends with the notebook server, and its page keeps the last text: it must stay true.
    parts.push(
      returns > now ? `idle: goes back in ${left(returns - now)}` : TIME_IS_UP
    );
  }
  return {
    text: parts.join(' · '),
    tip: tip(lease, idle, returns !== null && returns <= now),
    warns: returns !== null
  };
}

function tip(lease, idle, isOver) {
  const lines = ['This notebook’s slice of a GPU (GPU Commons).'];
  if (lease) {
    lines.push(`Team ${lease.team}, pool ${lease.pool}.`);
  }
  if (idle.idle_after_s ?? idle.idle_after_min) {
    const after = idle.idle_after_s
      ? idle.idle_after_s * 1000
      : idle.idle_after_min * MINUTE_MS;
    lines.push(
      `Idle for ${left(after)}, its GPU goes back. Typing, cells and processes count as work.`
    );
  }
  if (idle.on_idle_text) {
    lines.push(idle.on_idle_text);
  }
  lines.push(
    isOver
      ? 'The GPU goes back, and the notebook server ends. Where VS Code cannot reconnect, it has ended: start it again on the hub’s page.'
      : 'To keep it longer, press Keep in Lab’s panel.'
  );
  return lines.join('\n');
}

/**
 * Whether a program of another account listens at this port, in tables as `/proc/net/tcp` is one: who took
 * the port of a server that has gone would be told its token.
 */
function isOthers(port, tables, uid) {
  return tables
    .flatMap(table => table.split('\n').slice(1))
    .map(line => line.trim().split(/\s+/))
    .some(
      ([, local, , state, , , , owner]) =>
        state === LISTENS &&
        parseInt(local.split(':').pop(), 16) === port &&
        Number(owner) !== uid
    );
}

function isSafe(url) {
  const { readFileSync } = require('fs');
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].map(name => {
    try {
      return readFileSync(name, 'utf8');
    } catch {
      return '';
    }
  });
  const port = Number(new URL(url).port);
  return !isOthers(port, tables, process.getuid?.());
}

/** Follow the websocket until `stopped()`; `tell(lease, sample)` hears each change, (null, null) when it is gone. */
function follow(url, tell, stopped) {
  let pause = RATHER_OFTEN_MS;
  let lease = null;
  let sample = null;
  const open = () => {
    if (stopped()) {
      return;
    }
    if (!isSafe(url)) {
      setTimeout(open, AT_MOST_MS);
      return;
    }
    const socket = new WebSocket(url);
    socket.onmessage = event => {
      pause = RATHER_OFTEN_MS;
      const message = JSON.parse(event.data);
      if (message.type === 'lease') {
        lease = message.lease;
      } else if (message.type === 'usage') {
        const last = message.samples?.at(-1);
        sample = message.state === 'ok' ? (last ?? sample) : null;
      } else {
        return;
      }
      tell(lease, sample);
      if (stopped()) {
        socket.close();
      }
    };
    socket.onclose = () => {
      lease = null;
      sample = null;
      tell(lease, sample);
      setTimeout(open, pause);
      pause = Math.min(AT_MOST_MS, 2 * pause);
    };
    socket.onerror = () => {};
    return socket;
  };
  return open();
}

function activate(context) {
  const vscode = require('vscode');
  const url = process.env.GPUCOMMONS_EDITOR_SOCKET;
  if (!url || typeof WebSocket === 'undefined') {
    return;
  }
  const item = vscode.window.createStatusBarItem(
    'slice',
    vscode.StatusBarAlignment.Left,
    0
  );
  item.name = 'GPU slice';
  let lease = null;
  let sample = null;
  let over = false;
  let due;
  const draw = () => {
    const now = Date.now();
    const found = shown(lease, sample, now);
    clearTimeout(due);
    if (lease?.idle?.returns_ms > now) {
      due = setTimeout(draw, Math.min(lease.idle.returns_ms - now, MINUTE_MS));
    }
    if (found === null) {
      item.hide();
      return;
    }
    item.text = found.text;
    item.tooltip = found.tip;
    item.backgroundColor = found.warns
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    item.show();
  };
  follow(
    url,
    (newLease, newSample) => {
      lease = newLease;
      sample = newSample;
      draw();
    },
    () => over
  );
  const clock = setInterval(draw, MINUTE_MS / 4);
  context.subscriptions.push(item, {
    dispose() {
      over = true;
      clearTimeout(due);
      clearInterval(clock);
    }
  });
}

module.exports = { activate, shown, follow, isOthers };
