/** What a curve so far says of a goal, in the words of the page. No DOM. */
import type { ICurveOutlook, IOpenRange, IOutlookSize } from '../server/plans';
import type { ICurvePoint } from '../server/types';
import type { Messages } from '../text/messages';
import { duration, gpus, length } from '../text/format';

/** Below such a share of a hundred the goal is likely not reached. */
const SELDOM_PERCENT = 10;
const FURTHEST = 10;

export interface ISizeRow {
  gpus: string;
  more: string;
  /** Where that is from. */
  basis: string;
}

/** All of a curve, those first that people have goals for. */
export function metricsOf(points: readonly ICurvePoint[]): string[] {
  const all = new Set(points.flatMap(point => Object.keys(point.metrics)));
  const rank = (name: string) =>
    /acc/i.test(name) ? 0 : /loss/i.test(name) ? 1 : 2;
  return [...all]
    .filter(name => name !== 'epoch')
    .sort((one, other) => rank(one) - rank(other));
}

/** A goal as it is typed; null where it is none. A comma is a point: the reader may write German. */
export function goalOf(typed: string): number | null {
  const text = typed.trim().replace(',', '.').replace(/%$/, '').trim();
  const goal = Number(text);
  if (text === '' || !Number.isFinite(goal)) {
    return null;
  }
  return typed.trim().endsWith('%') ? goal / 100 : goal;
}

export function outlookText(found: ICurveOutlook, msg: Messages): string {
  const { trans } = msg;
  const { metric } = found;
  const goal = number(found.goal);
  const unit = msg.unit(found.unit);
  if (found.reached_at != null) {
    return trans.__(
      '%1 came to %2 at %3 %4.',
      metric,
      goal,
      unit,
      count(found.reached_at)
    );
  }
  const { steps, at, value } = found;
  if (at == null || value == null || steps == null) {
    return trans.__(
      'Can’t say yet when %1 comes to %2: too few points are known after the first tenth of the run.',
      metric,
      goal
    );
  }
  const now = trans.__(
    'It is about %1 at %2 %3.',
    number(value),
    unit,
    count(at)
  );
  const share = found.share_percent ?? 0;
  if (steps.low == null || share < SELDOM_PERCENT) {
    const never = trans.__(
      '%1 likely does not come to %2 within %3 times the run so far.',
      metric,
      goal,
      FURTHEST
    );
    return `${never} ${now}`;
  }
  if (steps.high == null) {
    const later = trans.__(
      '%1 comes to %2 at %3 %4 or later, in about %5 of ten cases within %6 times the run so far.',
      metric,
      goal,
      unit,
      count(steps.low),
      Math.round(share / 10),
      FURTHEST
    );
    return `${later} ${now}`;
  }
  const [low, high] = [count(steps.low), count(steps.high)];
  const likely = trans.__(
    '%1 likely comes to %2 at %3 %4.',
    metric,
    goal,
    unit,
    low === high ? low : `${low}–${high}`
  );
  return `${likely} ${now}`;
}

/** That going on brings little, or that it learns by heart. */
export function hintsOf(found: ICurveOutlook, msg: Messages): string[] {
  const { trans } = msg;
  return [
    ...(found.is_flat
      ? [
          trans.__(
            '%1 is flat: as long again likely changes it by less than a hundredth of what the run has brought.',
            found.metric
          )
        ]
      : []),
    ...found.parted.map(one =>
      trans.__(
        '%1 was lowest at %2 %3 and has risen since, while %4 fell: it learns its training data by heart (overfitting).',
        one.metric,
        msg.unit(found.unit),
        count(one.since),
        one.trained
      )
    )
  ];
}

/** So much longer it would run with 1, 2, 4 … GPUs; at least one row where a time is known. */
export function sizeRows(
  found: ICurveOutlook,
  gpusNow: number,
  msg: Messages
): ISizeRow[] {
  const own: IOutlookSize[] =
    found.seconds == null || gpusNow <= 0
      ? []
      : [{ gpus: gpusNow, seconds: found.seconds, basis: 'measured' }];
  return (found.sizes.length > 0 ? found.sizes : own).map(size => ({
    gpus: gpus(1000 * size.gpus),
    more: rangeText(size.seconds, msg),
    basis: basisText(size.basis, msg)
  }));
}

function basisText(basis: string, msg: Messages): string {
  const { trans } = msg;
  const words: Record<string, string> = {
    measured: trans.__('at its pace now'),
    runs: trans.__('as its own runs scale'),
    formula: trans.__('by its plan’s formula')
  };
  return words[basis] ?? basis;
}

function rangeText(seconds: IOpenRange, msg: Messages): string {
  const { trans } = msg;
  if (seconds.low == null) {
    return '–';
  }
  const low = length(seconds.low * 1000);
  if (seconds.high == null) {
    return trans.__('%1 or more', low);
  }
  const high = duration(seconds.high * 1000 + 59_999);
  return low === high ? low : trans.__('%1 to %2', low, high);
}

function number(value: number): string {
  return String(Number(value.toPrecision(4)));
}

function count(step: number): string {
  return step >= 100 || Number.isInteger(step)
    ? Math.round(step).toLocaleString('en-US')
    : String(Number(step.toPrecision(3)));
}
