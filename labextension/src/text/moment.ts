/** Moments of plans, which may be days away: for pages that come when they are opened. */
import { clock } from './format';

const DAY_MS = 86_400_000;

/** A time of today, else with its day. */
export function moment(ms: number, nowMs: number): string {
  const day = new Date(ms).toDateString();
  if (day === new Date(nowMs).toDateString()) {
    return clock(ms);
  }
  const far = Math.abs(ms - nowMs) > 300 * DAY_MS;
  const options: Intl.DateTimeFormatOptions = {
    day: 'numeric',
    month: 'short',
    year: far ? 'numeric' : undefined
  };
  const date = new Date(ms).toLocaleDateString('en-GB', options);
  return `${date} ${clock(ms)}`;
}
