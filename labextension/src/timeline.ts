/** "What happened" to a job: waits and attempts to scale, and the receipts of its stops. No DOM. */
import { clock, duration } from './format';
import { isFinal } from './jobs';
import type { Messages } from './messages';
import { IAttempt, IJob } from './tokens';

export type SegmentKind =
  'waited' | 'paused' | 'borrowed' | 'held' | 'running' | 'failed';

export interface ISegment {
  kind: SegmentKind;
  fromMs: number;
  toMs: number;
  percent: number;
  label: string;
}

export interface IReceipt {
  key: string;
  at: string;
  text: string;
}

export interface ITimeline {
  from: string;
  to: string;
  segments: ISegment[];
  receipts: IReceipt[];
}

/** Shorter waits are the moment between two attempts, not worth a segment. */
const SHORTEST_WAIT = 0.004;

export function timeline(job: IJob, nowMs: number, msg: Messages): ITimeline {
  const end = isFinal(job) ? (job.ended_ms ?? job.since_ms) : nowMs;
  const start = job.submitted_ms;
  const whole = Math.max(1, end - start);
  const segments: ISegment[] = [];
  const add = (
    kind: SegmentKind,
    [fromMs, toMs]: [number, number],
    label: string
  ) => {
    segments.push({
      kind,
      fromMs,
      toMs,
      percent: (100 * Math.max(0, toMs - fromMs)) / whole,
      label
    });
  };
  let at = start;
  for (const attempt of job.attempts) {
    const began = Math.min(end, attempt.started_ms ?? attempt.reserved_ms);
    if (began - at > whole * SHORTEST_WAIT) {
      add('waited', [at, began], msg.waited(began - at));
    }
    const ended = Math.max(began, Math.min(end, attempt.ended_ms ?? end));
    add(
      kindOf(attempt, job),
      [began, ended],
      attempt.ended_ms == null
        ? `${msg.attempt(attempt.number)} · ${msg.state(job)}`
        : `${msg.attempt(attempt.number)} · ${duration(ended - began)}`
    );
    at = ended;
  }
  if (!isFinal(job) && lastEnded(job)) {
    const paused = job.state === 'paused';
    add(
      paused ? 'paused' : 'waited',
      [at, end],
      `${msg.state(job)} · ${duration(end - at)}`
    );
  }
  return {
    from: clock(start),
    to: clock(end),
    segments,
    receipts: receipts(job, msg)
  };
}

function kindOf(attempt: IAttempt, job: IJob): SegmentKind {
  if (attempt.ended_ms == null) {
    return 'running';
  }
  const last = job.attempts[job.attempts.length - 1] === attempt;
  if (last && isFinal(job)) {
    return job.state === 'succeeded' ? 'running' : 'failed';
  }
  return attempt.hold_class === 'over-quota' ? 'borrowed' : 'held';
}

function lastEnded(job: IJob): boolean {
  const last = job.attempts[job.attempts.length - 1];
  return last === undefined || last.ended_ms != null;
}

function receipts(job: IJob, msg: Messages): IReceipt[] {
  return job.attempts
    .filter(attempt => attempt.ended_ms != null && attempt.ended_text)
    .map(attempt => ({
      key: attempt.id,
      at: clock(attempt.ended_ms ?? 0),
      text: `${msg.attempt(attempt.number)}: ${attempt.ended_text ?? ''}`
    }));
}
