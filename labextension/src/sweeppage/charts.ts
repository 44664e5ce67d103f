/** Charts of a sweep in the grammar of Vega-Lite, which Lab draws. Pure. */
import type { IFigures, ISweep, ITrial } from '../server/sweeps';
import { shortNumber } from '../text/format';

/** Colours of the page, so that charts follow its theme. */
export interface IColours {
  text: string;
  faint: string;
  line: string;
  borrowed: string;
}

/** Words that tooltips say. */
export interface IChartWords {
  trial: string;
  value: string;
  gpus: string;
}

export type Spec = Record<string, unknown>;

/** What a trial had, and when. */
export interface IPoint {
  at: number;
  value: number;
  trial: number;
}

const MINUTE_MS = 60_000;
const DAY_MS = 1440 * MINUTE_MS;
/** More lines than this are a grey area. */
const MOST_LINES = 300;

/** Each trial's best value, in the order in which they were told. */
export function told(trials: readonly ITrial[]): IPoint[] {
  return trials
    .filter(each => each.best != null)
    .map(each => ({
      at: each.best_ms,
      value: each.best ?? 0,
      trial: each.number
    }))
    .sort((one, other) => one.at - other.at);
}

/** Two lines can be compared; also where the first was the best of all. */
export function canBeCompared(trials: readonly ITrial[]): boolean {
  return told(trials).length > 1;
}

/** Values that were the best when they were told, also those that their own trials have beaten since. */
export function bests({ improvements }: ISweep): IPoint[] {
  // A scheduler of an earlier release sends none.
  return (improvements ?? []).map(({ at_ms: at, value, trial }) => ({
    at,
    value,
    trial
  }));
}

function base(colours: IColours): Spec {
  const axis = {
    labelColor: colours.text,
    titleColor: colours.text,
    gridColor: colours.faint,
    domainColor: colours.faint,
    tickColor: colours.faint
  };
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v5.json',
    background: null,
    width: 'container',
    height: 150,
    autosize: { type: 'fit', contains: 'padding' },
    config: { axis, view: { stroke: null }, text: { color: colours.text } }
  };
}

/** How moments of so long a time are told apart: in numbers, which are the same in each language. */
function timeFormat(spanMs: number): string {
  if (spanMs < 10 * MINUTE_MS) {
    return '%H:%M:%S';
  }
  if (spanMs < DAY_MS) {
    return '%H:%M';
  }
  // Beyond, its few ticks are days apart.
  return spanMs < 5 * DAY_MS ? '%m-%d %H:%M' : '%m-%d';
}

/** The axis of these moments; with seconds, or days, where the time of day alone would repeat. */
export function time(moments: readonly { at: number }[]) {
  const at = moments.map(each => each.at);
  const format = timeFormat(Math.max(...at) - Math.min(...at));
  const axis = { title: null, grid: false, labelOverlap: true, tickCount: 5 };
  return { field: 'at', type: 'temporal', axis: { ...axis, format } };
}

/** The best value so far as a line of steps, and each trial as a dot. */
export function bestSoFar(
  sweep: ISweep,
  nowMs: number,
  words: IChartWords,
  colours: IColours
): Spec {
  const points = told(sweep.trials);
  const best = bests(sweep);
  const last = best[best.length - 1];
  // Now is a whole minute, that it is drawn no oftener: what was told since is not drawn before it.
  const end = Math.max(nowMs, ...points.map(each => each.at));
  const line = last ? [...best, { ...last, at: end }] : best;
  const x = time([...points, ...line]);
  const value = {
    field: 'value',
    type: 'quantitative',
    scale: { zero: false },
    axis: { title: null, tickCount: 5 }
  };
  const tooltip = [
    { field: 'trial', title: words.trial },
    { field: 'value', title: sweep.metric }
  ];
  return {
    ...base(colours),
    layer: [
      {
        data: { values: points },
        mark: {
          type: 'point',
          filled: true,
          size: 22,
          color: colours.text,
          opacity: 0.5
        },
        encoding: { x, y: value, tooltip }
      },
      {
        data: { values: line },
        mark: { type: 'line', interpolate: 'step-after', color: colours.line },
        encoding: { x, y: value, tooltip }
      }
    ]
  };
}

/** What the sweep held. */
export function gpusInUse(
  gpus: IFigures['gpus'],
  endMs: number,
  words: IChartWords,
  colours: IColours
): Spec {
  // What was held from the last moment on is as wide as those before, and ends with the sweep.
  const [first, second] = gpus;
  const wide = first && second ? second.at_ms - first.at_ms : MINUTE_MS;
  const values = [...gpus, ...gpus.slice(-1)].map((each, index) => ({
    at:
      index < gpus.length
        ? each.at_ms
        : Math.max(each.at_ms, Math.min(each.at_ms + wide, endMs)),
    gpus: each.milli_gpu / 1000
  }));
  return {
    ...base(colours),
    data: { values },
    mark: {
      type: 'area',
      interpolate: 'step-after',
      color: colours.borrowed,
      opacity: 0.6
    },
    encoding: {
      x: time(values),
      y: {
        field: 'gpus',
        type: 'quantitative',
        axis: { title: null, tickCount: 5, tickMinStep: 1 }
      },
      tooltip: [{ field: 'gpus', title: words.gpus }]
    }
  };
}

/** One axis of the parallel coordinates. */
export interface IAxis {
  name: string;
  isLog: boolean;
  /** Of choices, in order; else empty. */
  choices: string[];
  low: number;
  high: number;
}

/** The parameters of a sweep, and its metric behind them. */
export function axesOf(sweep: ISweep): IAxis[] {
  const names = [...new Set(sweep.trials.flatMap(t => Object.keys(t.values)))];
  const axes = names.map(name =>
    axisOf(
      name,
      sweep.trials.flatMap(each => {
        const value = each.values[name];
        return value === undefined ? [] : [value];
      })
    )
  );
  const bests = sweep.trials.flatMap(t => (t.best == null ? [] : [t.best]));
  return bests.length > 0 ? [...axes, axisOf(sweep.metric, bests)] : axes;
}

function axisOf(
  name: string,
  values: readonly (string | number | boolean)[]
): IAxis {
  const numbers = values.filter(each => typeof each === 'number');
  if (numbers.length < values.length) {
    const choices = [...new Set(values.map(String))].sort();
    return { name, isLog: false, choices, low: 0, high: choices.length - 1 };
  }
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  // Drawn over several powers of ten it is read by its powers.
  return { name, isLog: low > 0 && high / low >= 100, choices: [], low, high };
}

/** How far up a value stands on its axis, from 0 to 1. */
export function height(axis: IAxis, value: string | number | boolean): number {
  const { low, high, isLog, choices } = axis;
  const at = typeof value === 'number' ? value : choices.indexOf(String(value));
  const scale = isLog ? Math.log : (number: number) => number;
  return high > low
    ? (scale(at) - scale(low)) / (scale(high) - scale(low))
    : 0.5;
}

function end(axis: IAxis, value: number): string {
  return axis.choices[value] ?? shortNumber(value);
}

/** Each line is a trial that has told its metric; the best one stands out. */
export function parallel(
  sweep: ISweep,
  headings: Record<string, string>,
  words: IChartWords,
  colours: IColours
): Spec {
  const axes = axesOf(sweep);
  const lines = sweep.trials.filter(t => t.best != null).slice(0, MOST_LINES);
  const heading = (axis: IAxis) => headings[axis.name] ?? axis.name;
  const rows = lines.flatMap(trial =>
    axes.flatMap(axis => {
      const value = { ...trial.values, [sweep.metric]: trial.best ?? 0 }[
        axis.name
      ];
      return value === undefined
        ? []
        : [
            {
              trial: trial.number,
              axis: heading(axis),
              y: height(axis, value),
              value: String(value),
              best: trial.number === sweep.best?.number
            }
          ];
    })
  );
  const ends = axes.flatMap(axis => [
    { axis: heading(axis), y: 1, text: end(axis, axis.high) },
    { axis: heading(axis), y: 0, text: end(axis, axis.low) }
  ]);
  const x = {
    field: 'axis',
    type: 'nominal',
    sort: null,
    scale: { type: 'point', padding: 0.35 },
    axis: {
      title: null,
      orient: 'top',
      labelAngle: 0,
      labelPadding: 28,
      labelExpr: "split(datum.label, '\\n')",
      domain: false,
      ticks: false
    }
  };
  const y = {
    field: 'y',
    type: 'quantitative',
    scale: { domain: [0, 1] },
    axis: null
  };
  const tooltip = [
    { field: 'trial', title: words.trial },
    { field: 'value', title: words.value }
  ];
  const line = (filter: string, color: string, opacity: number) => ({
    data: { values: rows },
    transform: [{ filter }],
    mark: { type: 'line', color, opacity, point: { size: 14, color, opacity } },
    encoding: { x, y, detail: { field: 'trial' }, tooltip }
  });
  return {
    ...base(colours),
    height: 230,
    layer: [
      {
        data: { values: ends.filter(each => each.y === 1) },
        mark: { type: 'rule', color: colours.text, opacity: 0.6 },
        encoding: {
          x,
          y: { datum: 0, type: 'quantitative', axis: null },
          y2: { datum: 1 }
        }
      },
      line('!datum.best', colours.text, 0.25),
      line('datum.best', colours.line, 1),
      ...[1, 0].map(at => ({
        data: { values: ends.filter(each => each.y === at) },
        mark: { type: 'text', dy: at === 1 ? -8 : 10, color: colours.text },
        encoding: { x, y, text: { field: 'text' } }
      }))
    ]
  };
}
