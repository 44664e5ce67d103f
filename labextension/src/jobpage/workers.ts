/** How many workers an elastic job had when, and what each change of their number was worth. No DOM. */
import { clock } from '../text/format';
import { IJob } from '../server/types';
import type { JobMessages } from './messages';

/** The drawing's own units: it is stretched to the width it gets. */
export const WIDTH = 1000;
export const HEIGHT = 36;

export interface IWorkersView {
  /** An area: a step for each attempt, nothing where it waited. */
  path: string;
  most: number;
  from: string;
  to: string;
  changes: { key: string; text: string }[];
}

/** Nothing to draw for a job that always has the same number. */
export function workersView(
  job: IJob,
  nowMs: number,
  msg: JobMessages
): IWorkersView | null {
  const ran = job.attempts.filter(attempt => attempt.started_ms != null);
  const [first] = ran;
  const { min_workers: low, max_workers: high } = job.request ?? {};
  const isElastic = low != null && high != null && low < high;
  if (first?.started_ms == null || !isElastic) {
    return null;
  }
  const startMs = first.started_ms;
  const endMs = ran.at(-1)?.ended_ms ?? Math.max(nowMs, startMs + 1);
  const most = Math.max(...ran.map(attempt => attempt.workers ?? 1));
  const x = (ms: number) =>
    Math.round((WIDTH * (ms - startMs)) / Math.max(1, endMs - startMs));
  const y = (workers: number) =>
    Math.round(HEIGHT - ((HEIGHT - 2) * workers) / most);
  return {
    path: ran
      .map(one => {
        const [from, to] = [x(one.started_ms ?? 0), x(one.ended_ms ?? endMs)];
        return `M${from} ${HEIGHT}V${y(one.workers ?? 1)}H${to}V${HEIGHT}Z`;
      })
      .join(''),
    most,
    from: clock(startMs),
    to: clock(endMs),
    changes: ran.slice(1).flatMap((attempt, index) => {
      const before = ran[index]?.workers ?? 1;
      const now = attempt.workers ?? 1;
      const at = clock(attempt.started_ms ?? 0);
      return now === before
        ? []
        : [
            {
              key: attempt.id,
              text: msg.changedSize(before, now, at, attempt.times_faster)
            }
          ];
    })
  };
}
