/** The last minutes of the slice, and the line they draw. No DOM. */
import { percent } from '../text/format';
import { IUsageSample, UsageState } from '../server/types';

/** What the sparkline shows. */
export const WINDOW_MS = 5 * 60_000;
/** Silence after which the newest sample is no longer "now". */
const STALE_MS = 10_000;

export class UsageHistory {
  state: UsageState | 'unknown' = 'unknown';
  readonly samples: IUsageSample[] = [];

  get last(): IUsageSample | null {
    return this.samples.at(-1) ?? null;
  }

  /** Take what came: history first, then one sample a second; repeats are dropped. */
  add(state: UsageState, samples: readonly IUsageSample[]): void {
    this.state = state;
    let newest = this.last?.at_ms ?? -1;
    for (const sample of samples) {
      if (sample.at_ms > newest) {
        this.samples.push(sample);
        newest = sample.at_ms;
      }
    }
    const first = this.samples.findIndex(
      sample => sample.at_ms >= newest - WINDOW_MS
    );
    this.samples.splice(0, Math.max(0, first));
  }

  /** A new lease is another slice: its line starts anew. */
  clear(): void {
    this.samples.length = 0;
    this.state = 'unknown';
  }

  isStale(nowMs: number): boolean {
    const last = this.last;
    return last !== null && nowMs - last.at_ms > STALE_MS;
  }
}

export interface ISpark {
  line: string;
  area: string;
}

/**
 * SVG paths of compute over the window, which ends at the newest sample. A second without a number
 * breaks the line: missing is not zero.
 */
export function spark(
  samples: readonly IUsageSample[],
  width: number,
  height: number
): ISpark {
  const end = samples.at(-1)?.at_ms ?? 0;
  const x = (sample: IUsageSample) =>
    round(width * (1 - (end - sample.at_ms) / WINDOW_MS));
  const y = (value: number) =>
    round(height - 1 - ((height - 2) * percent(value, 100)) / 100);
  let line = '';
  let area = '';
  let run: string[] = [];
  let runStart = 0;
  let runEnd = 0;
  const close = () => {
    if (run.length > 0) {
      line += `M${run.join('L')}`;
      area += `M${runStart} ${height}L${run.join('L')}L${runEnd} ${height}Z`;
      run = [];
    }
  };
  for (const sample of samples) {
    if (sample.compute_percent === null) {
      close();
      continue;
    }
    const at = x(sample);
    if (run.length === 0) {
      runStart = at;
    }
    runEnd = at;
    run.push(`${at} ${y(sample.compute_percent)}`);
  }
  close();
  return { line, area };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
