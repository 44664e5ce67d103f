/**
 * What the idle notification of a notebook should say now (A8). Pure, and driven by the lease
 * alone, so that every tab shows the same on the server's clock.
 */
import type { Messages } from './messages';
import { IIdle, ILease } from './tokens';

export const KEEP_MINUTES = 30;

const MINUTE = 60_000;
/** Limits this short exist in trials only; minutes would read "Idle 0 min". */
const SHORT_MS = 2 * MINUTE;

export interface IIdleNotice {
  /** The same lease and warning give the same key: shown once, not again after a click. */
  key: string;
  text: string;
  leaseId: string;
  keepsLeft: number;
}

export function idleNotice(
  lease: ILease | null,
  msg: Messages
): IIdleNotice | null {
  const idle = lease?.idle;
  if (
    !lease ||
    lease.state !== 'warned' ||
    idle?.idle_since_ms == null ||
    idle.returns_ms == null
  ) {
    return null;
  }
  const since = idle.idle_since_ms;
  const warned = idle.warned_ms ?? since + idle.warn_after_min * MINUTE;
  const idleMs = Math.max(0, warned - since);
  const returnMs = idle.returns_ms - since;
  const [unit, ms] = returnMs < SHORT_MS ? ['s', 1000] : ['min', MINUTE];
  const returned = Math.round(returnMs / ms);
  const text = msg.idleWarning(
    `${Math.round(idleMs / ms)} ${unit}`,
    unit === 's' ? `${returned} s` : String(returned)
  );
  return {
    key: `${lease.id}/${idle.returns_ms}`,
    text,
    leaseId: lease.id,
    keepsLeft: idle.keeps_left
  };
}

/** The line below the tile: active, idle with a countdown, or kept. */
export function idleLine(idle: IIdle, nowMs: number, msg: Messages): string {
  if (idle.kept_until_ms != null && idle.kept_until_ms > nowMs) {
    return msg.keptTimer(idle.kept_until_ms);
  }
  if (idle.idle_since_ms != null && idle.returns_ms != null) {
    return msg.idleTimer(nowMs - idle.idle_since_ms, idle.returns_ms - nowMs);
  }
  return msg.activeTimer(idle.idle_after_min);
}
