/** "What happened" to a job: waits and attempts to scale, and the receipts of its stops. No DOM. */
import { clock, length } from '../text/format';
import { currentAttempt, dot, inside, isFinal, stepText } from '../model/jobs';
import { IAttempt, IJob } from '../server/types';
import type { JobMessages } from './messages';

export type SegmentKind =
  | 'waited'
  | 'paused'
  | 'starting'
  | 'borrowed'
  | 'held'
  | 'running'
  | 'failed'
  | 'cancelled';

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
  fromMs: number;
  toMs: number;
  from: string;
  to: string;
  segments: ISegment[];
  receipts: IReceipt[];
}

/** Shorter waits are the moment between two attempts, not worth a segment. */
const SHORTEST_WAIT = 0.004;

export function timeline(
  job: IJob,
  nowMs: number,
  msg: JobMessages
): ITimeline {
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
  const pauses = [...(job.pauses ?? [])];
  if (job.state === 'paused') {
    pauses.push({ from_ms: job.since_ms, to_ms: end });
  }
  /** A stretch without an attempt: it waited, but for the pauses in it. */
  const idle = (fromMs: number, toMs: number) => {
    const part = (kind: 'waited' | 'paused', stop: number) => {
      if (stop - at > whole * SHORTEST_WAIT) {
        // A job that starts has waited till now: its attempt may be told a moment later.
        const now =
          kind === 'waited' &&
          stop === end &&
          !isFinal(job) &&
          dot(job) !== 'starting';
        add(
          kind,
          [at, stop],
          now
            ? `${msg.state(job)} · ${length(stop - at)}`
            : kind === 'waited'
              ? msg.waited(stop - at)
              : msg.paused(stop - at)
        );
        at = stop;
      }
    };
    at = fromMs;
    for (const pause of pauses) {
      if (pause.to_ms > at && pause.from_ms < toMs) {
        part('waited', pause.from_ms);
        part('paused', Math.min(toMs, pause.to_ms));
      }
    }
    part('waited', toMs);
  };
  let at = start;
  for (const attempt of job.attempts) {
    const reserved = Math.min(end, Math.max(at, attempt.reserved_ms));
    const started = Math.max(
      reserved,
      Math.min(end, attempt.started_ms ?? reserved)
    );
    idle(at, reserved);
    // It has its GPUs from here on: a container that is fetched is no wait in line.
    const isSlow = started - reserved > whole * SHORTEST_WAIT;
    const began = isSlow ? started : reserved;
    if (isSlow) {
      add('starting', [reserved, started], msg.startedIn(started - reserved));
    }
    const ended = Math.max(began, Math.min(end, attempt.ended_ms ?? end));
    add(
      kindOf(attempt, job),
      [began, ended],
      attempt.ended_ms == null
        ? `${msg.attempt(attempt.number)} · ${msg.state(job)}`
        : `${msg.attempt(attempt.number)} · ${length(ended - began)}`
    );
    at = ended;
  }
  if (lastEnded(job)) {
    idle(at, end);
  }
  return {
    fromMs: start,
    toMs: end,
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
  const last = job.attempts.at(-1) === attempt;
  if (last && isFinal(job)) {
    return job.state === 'succeeded'
      ? 'running'
      : (job.state as 'failed' | 'cancelled');
  }
  return attempt.hold_class === 'over-quota' ? 'borrowed' : 'held';
}

function lastEnded(job: IJob): boolean {
  const last = job.attempts.at(-1);
  return last === undefined || last.ended_ms != null;
}

function receipts(job: IJob, msg: JobMessages): IReceipt[] {
  return job.attempts.flatMap(attempt => {
    const said: IReceipt[] = [];
    const say = (key: string, atMs: number, text: string) =>
      said.push({
        key: `${attempt.id}${key}`,
        at: clock(atMs),
        text: `${msg.attempt(attempt.number)}: ${text}`
      });
    const { started_ms: began, resumed_from_step: step } = attempt;
    if (began != null && step != null) {
      const isUnseen =
        attempt === currentAttempt(job) &&
        job.drill?.state === 'testing' &&
        job.drill.step != null;
      const at = stepText(job, step, msg);
      const held = msg.gpuCount(attempt.milli_gpu);
      say(
        '+',
        began,
        isUnseen ? msg.beganWith(at, held) : msg.resumedAt(at, held)
      );
    }
    if (attempt.ended_ms != null && attempt.ended_text) {
      say('', attempt.ended_ms, inside(attempt.ended_text));
    }
    return said;
  });
}
