/**
 * What the idle notification of a notebook should say now (A8). Pure, and driven by the lease
 * alone, so that every tab shows the same on the server's clock.
 */
import type { Messages } from '../text/messages';
import type { Keeps } from '../server/lostkernels';
import { IIdle, ILease } from '../server/types';

export const KEEP_MINUTES = 30;

const SECOND = 1000;
const MINUTE = 60_000;
/** Limits this short exist in trials only; minutes would read "Idle 0 min". */
const SHORT_MS = 2 * MINUTE;
/** Warnings come a look of the culler late, and so do returns. */
const NEAR_MS = 30 * SECOND;
/** Shorter pauses are part of working. */
const TELLING_MS = MINUTE;

export interface IIdleNotice {
  /** The same warning gives the same key: shown once, not again after a click. */
  key: string;
  text: string;
  keepsLeft: number;
}

export function idleNotice(
  lease: ILease | null,
  msg: Messages,
  keeps: Keeps
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
  const warned = idle.warned_ms ?? since + warnAfterMs(idle);
  const returnMs = idle.returns_ms - since;
  const [unit, ms] = returnMs < SHORT_MS ? ['s', 1000] : ['min', MINUTE];
  const limitMs = idleAfterMs(idle);
  // As the line below the tile says it, unless it was put off: then in whole minutes.
  const isByRule =
    Math.abs(returnMs - limitMs) < Math.min(NEAR_MS, limitMs / 5);
  const returned = isByRule
    ? lengthOf(limitMs).join(' ').trim()
    : `${Math.floor(returnMs / ms)} ${unit}`;
  const length = Math.floor((warned - since) / ms);
  // Who is asked in the first minute is hardly idle; the length says nothing then.
  const idleFor = length > 0 ? [msg.idleFor(`${length} ${unit}`)] : [];
  const text = idle.reclaimed
    ? msg.reclaimWarning(idle.returns_ms, idle.keeps_left > 0)
    : idle.on_idle === 'release'
      ? msg.releaseWarning(returned)
      : msg.idleWarning(returned);
  // An admin's wish is longer, and all of it must fit: that it can be kept is in it.
  const left =
    idle.keeps_left > 0 && !idle.reclaimed
      ? [msg.keepsLeft(idle.keeps_left)]
      : [];
  const kept = idle.parks
    ? idle.on_idle_text
    : msg.atReturn(idle.on_idle === 'cull' ? 'nothing' : keeps);
  return {
    key: `${idle.returns_ms}/${idle.reclaimed}/${idle.on_idle}/${keeps}`,
    // Not on the button: three of them fill a line.
    text: [...idleFor, text, ...left, kept].join(' '),
    keepsLeft: idle.keeps_left
  };
}

export function idleAfterMs(idle: IIdle): number {
  return idle.idle_after_s == null
    ? idle.idle_after_min * MINUTE
    : idle.idle_after_s * SECOND;
}

export function warnAfterMs(idle: IIdle): number {
  return idle.warn_after_s == null
    ? idle.warn_after_min * MINUTE
    : idle.warn_after_s * SECOND;
}

/** "60", "min"; "90", "s"; in one, and nothing behind it: "10 min 30 s". */
export function idleLength(idle: IIdle): readonly [string, string] {
  return lengthOf(idleAfterMs(idle));
}

function lengthOf(ms: number): readonly [string, string] {
  const minutes = Math.floor(ms / MINUTE);
  const seconds = Math.floor((ms % MINUTE) / SECOND);
  if (seconds === 0) {
    return [String(minutes), 'min'];
  }
  return minutes < 2
    ? [String(Math.floor(ms / SECOND)), 's']
    : [`${minutes} min ${seconds} s`, ''];
}

/** Whether keeping gives more than the idle rule does by itself. */
export function isKept(idle: IIdle, nowMs: number): boolean {
  const byRule = (idle.idle_since_ms ?? nowMs) + idleAfterMs(idle);
  return (idle.kept_until_ms ?? 0) > Math.max(nowMs, byRule);
}

/** The line below the tile: active, idle with a countdown, or kept. */
export function idleLine(idle: IIdle, nowMs: number, msg: Messages): string {
  if (idle.idle_since_ms != null && idle.returns_ms != null) {
    return msg.idleTimer(nowMs - idle.idle_since_ms, idle.returns_ms - nowMs);
  }
  if (idle.kept_until_ms != null && isKept(idle, nowMs)) {
    return msg.keptTimer(idle.kept_until_ms);
  }
  const idleMs = idle.idle_since_ms == null ? 0 : nowMs - idle.idle_since_ms;
  if (idleMs >= TELLING_MS) {
    return msg.idleSoFar(idleMs, idleLength(idle));
  }
  return msg.activeTimer(idleLength(idle));
}
