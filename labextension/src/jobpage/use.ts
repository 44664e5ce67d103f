/** What a job used of its GPUs, to the timeline's scale. Pure. */
import type { IJobUse, IUseSpan } from '../server/jobuse';
import type { IAttempt } from '../server/types';

export const WIDTH = 1000;
export const HEIGHT = 40;

export interface IBand {
  /** SVG paths, in a box of WIDTH × HEIGHT. */
  held: string;
  used: string;
}

export interface IUseView {
  gpus: IBand;
  memory: IBand;
  /** The most GPUs that it held at a time, in thousandths. */
  mostMilliGpu: number;
}

/**
 * Null where there is nothing to draw: no GPU was held, or nothing is known yet. What is held is
 * told by the attempts, up to this moment; measurements come a minute later.
 */
export function useView(
  use: IJobUse | null,
  attempts: readonly IAttempt[],
  fromMs: number,
  toMs: number
): IUseView | null {
  const spans = use?.spans ?? [];
  const most = Math.max(0, ...attempts.map(attempt => attempt.milli_gpu));
  if (use === null || most === 0 || spans.length === 0) {
    return null;
  }
  const fullest = use.memory_used_mib_max ?? 0;
  // Of what it holds; where that is not known, of the most that it used.
  const memory = Math.max(1, fullest, use.memory_held_mib ?? 0);
  const draw = (start: number, end: number, height: number | null) =>
    block([start, end], height, [fromMs, toMs]);
  const area = (height: (span: IUseSpan) => number | null) =>
    spans.map(span => draw(span.from_ms, span.to_ms, height(span))).join('');
  return {
    gpus: {
      held: attempts
        .map(one =>
          draw(one.reserved_ms, one.ended_ms ?? toMs, one.milli_gpu / most)
        )
        .join(''),
      used: area(span => part(span.used_milli_gpu, most))
    },
    memory: {
      held: '',
      used: area(span => part(span.memory_used_mib, memory))
    },
    mostMilliGpu: most
  };
}

function part(amount: number | null | undefined, most: number): number | null {
  return amount == null ? null : amount / most;
}

/** A block from the floor up; nothing where nothing was measured. */
function block(
  [start, end]: [number, number],
  height: number | null,
  [fromMs, toMs]: [number, number]
): string {
  const x = (at: number) =>
    Math.round(
      (WIDTH * (Math.min(toMs, Math.max(fromMs, at)) - fromMs) * 10) /
        Math.max(1, toMs - fromMs)
    ) / 10;
  const [left, right] = [x(start), x(end)];
  if (height === null || right <= left) {
    return '';
  }
  const top = HEIGHT - Math.round(Math.min(1, height) * HEIGHT * 10) / 10;
  return `M${left} ${HEIGHT}V${top}H${right}V${HEIGHT}Z`;
}
