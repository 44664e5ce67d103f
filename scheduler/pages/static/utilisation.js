// Utilisation over time, drawn by uPlot (beside, as a script of its own): pointer, keys and zoom, in
// the colours of the theme. What is read is said below the drawing; a table has the same numbers.
import { gettext, locale } from './texts.js';

const HEIGHT = 250;
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const DAY_S = 86_400;
const ZOOM = 0.6;

function colour(name) {
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = window.getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// The day before the month, as in the table.
function ours() {
  const found = locale();
  return found.startsWith('en') ? 'en-GB' : found;
}

function moment(at, step) {
  const options = { weekday: 'short', day: 'numeric', month: 'long' };
  if (step < DAY_S) {
    Object.assign(options, { hour: '2-digit', minute: '2-digit' });
  }
  const words = new Intl.DateTimeFormat(ours(), {
    ...options,
    hourCycle: 'h23',
    timeZone: 'UTC'
  });
  return words.format(new Date(at * 1000));
}

function amount(value) {
  return value == null
    ? gettext('not known')
    : value.toLocaleString(ours(), {
        minimumFractionDigits: 1,
        maximumFractionDigits: 1,
        useGrouping: false
      });
}

function reading(drawn, index) {
  const there = drawn.there[index];
  const values = {
    when: moment(drawn.at[index], drawn.step),
    allocated: amount(drawn.allocated[index]),
    there: amount(there),
    used: amount(drawn.used[index])
  };
  return there == null
    ? gettext('%(when)s: allocated %(allocated)s, used %(used)s', values)
    : gettext(
        '%(when)s: allocated %(allocated)s of %(there)s, used %(used)s',
        values
      );
}

/** Vertical lines where something was changed, with the letters of the list below. */
function drawMarks(plot, drawn) {
  const context = plot.ctx;
  const ratio = window.devicePixelRatio || 1;
  const { top, height, left, width } = plot.bbox;
  context.save();
  context.font = `bold ${11 * ratio}px system-ui`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  drawn.marks.forEach((at, index) => {
    const x = plot.valToPos(at, 'x', true);
    if (x < left || x > left + width) {
      return;
    }
    context.strokeStyle = colour('--gc-font2');
    context.setLineDash([2 * ratio, 3 * ratio]);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
    context.fillStyle = colour('--gc-font1');
    context.beginPath();
    context.arc(x, top + 9 * ratio, 8 * ratio, 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = colour('--gc-layout0');
    context.fillText(LETTERS[index] ?? '', x, top + 9.5 * ratio);
  });
  context.restore();
}

function axis() {
  return {
    stroke: colour('--gc-font2'),
    grid: { stroke: colour('--gc-border3'), width: 1 },
    ticks: { stroke: colour('--gc-border2'), width: 1 }
  };
}

function ticks(step) {
  return (_plot, splits) => splits.map(at => tick(at, step));
}

function tick(at, step) {
  const day = { day: 'numeric', month: 'short' };
  const time = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  const shown = step < DAY_S && at % DAY_S ? time : day;
  return new Intl.DateTimeFormat(ours(), { ...shown, timeZone: 'UTC' }).format(
    new Date(at * 1000)
  );
}

function series(label, stroke, more = {}) {
  return {
    label,
    stroke,
    paths: window.uPlot.paths.stepped({ align: 1 }),
    points: { show: false },
    ...more
  };
}

function options(element, drawn, say) {
  const soft = colour('--gc-notebook-soft');
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    tzDate: at => window.uPlot.tzDate(new Date(at * 1000), 'Etc/UTC'),
    cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
    scales: {
      y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.12)] }
    },
    axes: [{ ...axis(), space: 70, values: ticks(drawn.step) }, axis()],
    series: [
      {},
      series('used', soft, { fill: soft, width: 0 }),
      series('there', colour('--gc-border1'), { dash: [6, 5], width: 1.5 }),
      series('allocated', colour('--gc-font1'), { width: 1.5 })
    ],
    hooks: {
      draw: [plot => drawMarks(plot, drawn)],
      setCursor: [
        plot => {
          if (plot.cursor.idx != null) {
            say(reading(drawn, Math.min(plot.cursor.idx, drawn.at.length - 1)));
          }
        }
      ]
    }
  };
}

function endOf(drawn) {
  return drawn.at.at(-1) + drawn.step;
}

function zoom(plot, by, drawn) {
  const { min, max } = plot.scales.x;
  const middle = drawn.at[plot.cursor.idx ?? -1] ?? (min + max) / 2;
  const half = Math.max((max - min) * by, 4 * drawn.step) / 2;
  const [first, last] = [drawn.at[0], endOf(drawn)];
  plot.setScale('x', {
    min: Math.max(first, middle - half),
    max: Math.min(last, middle + half)
  });
}

function showAll(plot, drawn) {
  plot.setScale('x', { min: drawn.at[0], max: endOf(drawn) });
}

function move(plot, index, drawn) {
  const found = Math.min(drawn.at.length - 1, Math.max(0, index));
  const { min, max } = plot.scales.x;
  const at = drawn.at[found];
  if (at < min || at > max) {
    const half = (max - min) / 2;
    plot.setScale('x', { min: at - half, max: at + half });
  }
  // uPlot sets scales at the end of the task: a cursor that is set before would stand elsewhere.
  setTimeout(() =>
    plot.setCursor({ left: plot.valToPos(at, 'x'), top: HEIGHT / 2 })
  );
}

function press(event, plot, drawn) {
  const here = plot.cursor.idx ?? drawn.at.length - 1;
  const keys = {
    ArrowLeft: () => move(plot, here - 1, drawn),
    ArrowRight: () => move(plot, here + 1, drawn),
    Home: () => move(plot, 0, drawn),
    End: () => move(plot, drawn.at.length - 1, drawn),
    '+': () => zoom(plot, ZOOM, drawn),
    '=': () => zoom(plot, ZOOM, drawn),
    '-': () => zoom(plot, 1 / ZOOM, drawn),
    0: () => showAll(plot, drawn)
  };
  const act = keys[event.key];
  if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    act();
  }
}

function start(element) {
  const drawn = JSON.parse(element.dataset.drawn);
  const said = document.getElementById('reading');
  // A step is drawn from its beginning to the next one's: the last one gets an end, too.
  const lines = [drawn.used, drawn.there, drawn.allocated];
  const data = [
    [...drawn.at, endOf(drawn)],
    ...lines.map(line => [...line, line.at(-1)])
  ];
  let plot = null;
  const draw = () => {
    plot?.destroy();
    const made = options(element, drawn, text => {
      said.textContent = text;
    });
    plot = new window.uPlot(made, data, element);
  };
  draw();
  element.addEventListener('keydown', event => press(event, plot, drawn));
  new window.ResizeObserver(() =>
    plot.setSize({ width: element.clientWidth, height: HEIGHT })
  ).observe(element);
  new window.MutationObserver(draw).observe(document.documentElement, {
    attributeFilter: ['data-bs-theme']
  });
}

/** Without the library there is the table, opened. */
function showTable(element) {
  element.hidden = true;
  document.querySelector('[data-same]').open = true;
}

const element = document.querySelector('[data-drawn]');
if (element && window.uPlot) {
  start(element);
} else if (element) {
  showTable(element);
}
