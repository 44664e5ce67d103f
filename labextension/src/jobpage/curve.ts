/** Geometry of the metric curve: two metrics, one axis each, in SVG units. Pure. */
import { isShare, metric, shortNumber } from '../text/format';
import { ICurvePoint } from '../server/types';

export interface IBox {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface ITick {
  at: number;
  label: string;
}

export interface ISeries {
  name: string;
  /** One path per attempt; an attempt's steps that a later one repeated are apart, as `lost`. */
  paths: { d: string; lost: boolean }[];
  ticks: ITick[];
  end: { x: number; y: number; label: string; labelY: number };
}

export interface ICurveView {
  series: ISeries[];
  steps: ITick[];
  /** Where each attempt but the first began. */
  attempts: { x: number; number: number }[];
  firstStep: number;
  lastStep: number;
}

/** From a line's end up to the words above it, and what a line of them takes. */
const LABEL_GAP = 7;
const LABEL_HEIGHT = 14;
const MOST_DIGITS = 12;
const LEFT = [/^loss$/i, /loss/i, /err/i];
const RIGHT = [/^acc(uracy)?$/i, /acc/i];

/** Where a point stands on the axis: parts of epochs are counted in thousandths. */
export function place(point: ICurvePoint): number {
  return point.unit === 'epoch'
    ? (point.metrics['epoch'] ?? point.step)
    : point.step;
}

/** The two metrics to draw: a loss at the left, an accuracy at the right, else the first ones. */
export function chosenMetrics(points: readonly ICurvePoint[]): string[] {
  const names = [
    ...new Set(points.flatMap(point => Object.keys(point.metrics)))
  ].filter(name => name !== 'epoch');
  const find = (patterns: RegExp[]) =>
    patterns
      .map(pattern => names.find(name => pattern.test(name)))
      .find(name => name !== undefined);
  const chosen = [find(LEFT), find(RIGHT), ...names].filter(
    (name): name is string => name !== undefined
  );
  return [...new Set(chosen)].slice(0, 2);
}

export function curveView(
  points: readonly ICurvePoint[],
  box: IBox
): ICurveView {
  const steps = points.map(place);
  const firstStep = Math.min(...steps);
  const lastStep = Math.max(...steps);
  const x = scale([firstStep, lastStep], [box.left, box.width - box.right]);
  const series = chosenMetrics(points).map(name =>
    seriesOf(name, points, x, box)
  );
  spreadLabels(series, box.height - box.bottom);
  const begins = attemptStarts(points);
  return {
    series,
    steps: labelled(ticks(firstStep, lastStep, 5, true), x),
    attempts: begins
      .slice(1)
      .map(begin => ({ x: x(begin.step), number: begin.attempt })),
    firstStep,
    lastStep
  };
}

function seriesOf(
  name: string,
  points: readonly ICurvePoint[],
  x: (value: number) => number,
  box: IBox
): ISeries {
  const known = points.filter(point =>
    Number.isFinite(point.metrics[name] ?? NaN)
  );
  const value = (point: ICurvePoint) => point.metrics[name] ?? 0;
  const values = known.map(value);
  const lowest = Math.min(...values);
  const low = lowest >= 0 ? 0 : lowest;
  const highest = Math.max(...values);
  const at = ticks(low, highest > low ? highest : low + 1, 4);
  const low2 = Math.min(low, at[0] ?? low);
  const high = Math.max(highest, at.at(-1) ?? highest);
  const y = scale([low2, high], [box.height - box.bottom, box.top]);
  const shares = values.every(each => isShare(name, each));
  const last = known.at(-1);
  const endY = last ? y(value(last)) : box.top;
  return {
    name,
    paths: pathsOf(known, point => [x(place(point)), y(value(point))]),
    ticks: labelled(at, y, shares),
    end: {
      x: last ? x(place(last)) : box.left,
      y: endY,
      label: last ? metric(name, value(last)) : '',
      labelY: endY - LABEL_GAP
    }
  };
}

/** As few digits as tell the labels apart. */
function labelled(
  values: readonly number[],
  place: (value: number) => number,
  asShares = false
): ITick[] {
  const short = values.map(shortNumber);
  const all =
    !asShares && areApart(short)
      ? short
      : fixed(values.map(value => (asShares ? value * 100 : value)));
  return values.map((value, index) => ({
    at: place(value),
    label: `${all[index] ?? ''}${asShares ? ' %' : ''}`
  }));
}

function fixed(values: readonly number[]): string[] {
  const texts = (digits: number) => values.map(each => each.toFixed(digits));
  let digits = 0;
  while (digits < MOST_DIGITS && !areApart(texts(digits))) {
    digits += 1;
  }
  return texts(digits);
}

function areApart(texts: readonly string[]): boolean {
  return new Set(texts).size === texts.length;
}

/** Lines that end close together: the lower one's words stand below its end, or both above. */
function spreadLabels(series: readonly ISeries[], floor: number): void {
  const [upper, lower] = series.map(each => each.end).sort((a, b) => a.y - b.y);
  if (upper && lower && lower.y - upper.y < LABEL_HEIGHT) {
    const below = lower.y + LABEL_HEIGHT;
    if (below < floor) {
      lower.labelY = below;
    } else {
      upper.labelY = lower.labelY - LABEL_HEIGHT;
    }
  }
}

function pathsOf(
  points: readonly ICurvePoint[],
  at: (point: ICurvePoint) => [number, number]
): ISeries['paths'] {
  const paths: ISeries['paths'] = [];
  const begins = attemptStarts(points);
  let joint: ICurvePoint | undefined;
  begins.forEach((begin, index) => {
    const next = begins[index + 1]?.step ?? Infinity;
    const own = points.filter(point => point.attempt === begin.attempt);
    const kept = own.filter(point => place(point) < next);
    const lost = own.filter(point => place(point) >= next);
    const joined = joint ? [joint, ...kept] : kept;
    joint = kept.at(-1) ?? joint;
    if (joined.length > 0) {
      paths.push({ d: path(joined.map(at)), lost: false });
    }
    if (lost.length > 0) {
      const from = kept.slice(-1);
      paths.push({ d: path([...from, ...lost].map(at)), lost: true });
    }
  });
  return paths;
}

function attemptStarts(
  points: readonly ICurvePoint[]
): { attempt: number; step: number }[] {
  const starts = new Map<number, number>();
  for (const point of points) {
    const known = starts.get(point.attempt) ?? Infinity;
    starts.set(point.attempt, Math.min(known, place(point)));
  }
  return [...starts.entries()]
    .sort(([a], [b]) => a - b)
    .map(([attempt, step]) => ({ attempt, step }));
}

function path(places: [number, number][]): string {
  return `M${places.map(([x, y]) => `${one(x)} ${one(y)}`).join('L')}`;
}

function one(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function scale(
  [from, to]: [number, number],
  [start, end]: [number, number]
): (value: number) => number {
  const span = to - from || 1;
  return value => start + ((value - from) / span) * (end - start);
}

/** Round numbers that span low…high: 1, 2 or 5 times a power of ten apart. */
export function ticks(
  low: number,
  high: number,
  about: number,
  inside = false
): number[] {
  const span = high - low;
  if (span <= 0 || !Number.isFinite(span)) {
    return [low];
  }
  const raw = span / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const unit = [1, 2, 5, 10].find(each => each * power >= raw) ?? 10;
  // Along the axis lie steps: there are no half ones.
  const step = inside ? Math.max(1, unit * power) : unit * power;
  const first = inside ? Math.ceil(low / step) : Math.floor(low / step);
  const last = inside ? Math.floor(high / step) : Math.ceil(high / step);
  const all: number[] = [];
  for (let index = first; index <= last; index++) {
    all.push(Number((index * step).toPrecision(12)));
  }
  return all;
}
