/** What a row of *Jobs* says, made from a job's view. No DOM. */
import { clock, count, metric, percent } from '../text/format';
import type { Messages } from '../text/messages';
import type { Connection } from '../server/api';
import { IAttempt, IJob, IProgress, IStop, IWhoAmI } from '../server/types';

const FINAL = new Set(['succeeded', 'failed', 'cancelled']);
const LEAVING = new Set(['preempting', 'pausing', 'cancelling']);
const WAITING = new Set(['queued', 'nominated']);
/** Most telling first. */
const TELLING = [/^(val|test).*acc/i, /acc/i, /^(val|test).*loss/i, /loss/i];

export type Dot =
  | 'running'
  | 'waiting'
  | 'starting'
  | 'stopping'
  | 'paused'
  | 'finished'
  | 'failed';

export function isFinal(job: IJob): boolean {
  return FINAL.has(job.state);
}

/** It ran and does not any more, or not for long. */
export function hasStopped(job: IJob): boolean {
  return isFinal(job) || job.state === 'paused' || LEAVING.has(job.state);
}

export function isWaiting(job: IJob): boolean {
  return WAITING.has(job.state);
}

/** Its request can be submitted again: a list shows long ones in part. */
export function hasRequest(job: IJob | null): boolean {
  return job?.request != null && !job.request_lacks?.length;
}

/** The scheduler's rule: owner, a lead of its team, or an admin. */
export function maySteer(job: IJob, whoami: IWhoAmI | null): boolean {
  return (
    whoami !== null &&
    (job.owner === whoami.name ||
      whoami.admin === true ||
      (whoami.leads ?? []).includes(job.team))
  );
}

export function canPause(job: IJob): boolean {
  return ['queued', 'admitted', 'starting', 'running'].includes(job.state);
}

export function canResume(job: IJob): boolean {
  return job.state === 'paused';
}

export function canCancel(job: IJob): boolean {
  return !isFinal(job) && job.state !== 'cancelling';
}

/** Whether whoever looks may submit its request once more. */
export function canRunAgain(job: IJob): boolean {
  return Boolean(job.request) && !job.again_hindrance;
}

/** A job that is over goes on from what it saved for its owner alone, and once. */
export function canRunFromHere(
  job: IJob,
  model: { whoami: IWhoAmI | null; jobs: readonly IJob[] | null }
): boolean {
  return (
    isFinal(job) &&
    job.checkpoint != null &&
    job.owner === model.whoami?.name &&
    canRunAgain(job) &&
    !goesOnIn(job, model.jobs)
  );
}

/** The job as its reader would ask for it: what belongs to its owner is left out, as the service does. */
export function askedBy(job: IJob, whoami: IWhoAmI | null): IJob {
  return job.owner === whoami?.name || !job.request
    ? job
    : { ...job, request: { ...job.request, secrets: {}, results_to: null } };
}

/** GPUs per worker with which a waiting job would start now, where its owner looks and may act. */
export function startableWith(
  job: IJob,
  model: { whoami: IWhoAmI | null; connection: Connection }
): number {
  return model.connection === 'ok' &&
    isWaiting(job) &&
    job.request &&
    job.owner === model.whoami?.name
    ? (job.reason?.startable_milli_gpu ?? 0)
    : 0;
}

/** The job in which one that has ended was run again from where it stood. */
export function goesOnIn(
  job: IJob,
  jobs: readonly IJob[] | null
): IJob | undefined {
  return jobs?.find(
    each => each.request?.resume_from === job.id && each.owner === job.owner
  );
}

/** What a cancel means where the job stands, and the word for leaving it there. */
export function cancelWords(job: IJob, { trans }: Messages): [string, string] {
  const holds = currentAttempt(job) !== null;
  const ends = holds
    ? trans.__('It ends for good.')
    : trans.__('It leaves the line for good.');
  const saved = job.checkpoint
    ? trans.__('Its newest checkpoint is kept.')
    : job.attempts.length > 0
      ? trans.__('It has saved no checkpoint.')
      : trans.__('Nothing of it has run yet.');
  return [
    `${ends} ${saved}`,
    holds ? trans.__('Let it run') : trans.__('Keep it')
  ];
}

export function dot({ state }: { state: string }): Dot {
  switch (state) {
    case 'queued':
    case 'nominated':
      return 'waiting';
    case 'admitted':
    case 'starting':
      return 'starting';
    case 'running':
    case 'paused':
    case 'failed':
      return state;
    default:
      return LEAVING.has(state) ? 'stopping' : 'finished';
  }
}

/** Live jobs first, waiting ones in the order of their line; then the newest finished. */
export function sorted(jobs: readonly IJob[]): IJob[] {
  const group = (job: IJob) => (isFinal(job) ? 2 : isWaiting(job) ? 1 : 0);
  return [...jobs].sort(
    (a, b) =>
      group(a) - group(b) ||
      (isFinal(a)
        ? (b.ended_ms ?? b.since_ms) - (a.ended_ms ?? a.since_ms)
        : (a.position ?? 0) - (b.position ?? 0) ||
          a.submitted_ms - b.submitted_ms)
  );
}

export function currentAttempt(job: IJob): IAttempt | null {
  const last = job.attempts.at(-1);
  return last && last.state !== 'ended' ? last : null;
}

/** How many workers an attempt has or had: of an elastic job not those that were asked. */
export function workersOf(job: IJob, attempt: IAttempt | null): number {
  const asked = job.request?.roles[0]?.count;
  const had = attempt?.workers;
  return asked && had ? job.workers - asked + had : job.workers;
}

/** Stops that nobody here asked for; those of one's own hand need no notification. */
const FOR_OTHERS = new Set(['preempt', 'reclaim', 'resize', 'move', 'spot']);

export function isForOthers(stop: IStop): boolean {
  return FOR_OTHERS.has(stop.why);
}

/** The stop and the time that is left, and how it goes on. Once it has begun, the job may stand still. */
export function stopWords(
  job: IJob,
  stop: IStop,
  nowMs: number,
  msg: Messages
): string {
  const isAhead = isForOthers(stop) && nowMs < stop.term_ms;
  // SIGTERM ends most scripts at once; whoever saves has the time after it.
  return msg.stopIn(
    (isAhead ? stop.term_ms : stop.kill_ms) - nowMs,
    inside(stop.text),
    wayWords(job),
    isAhead
  );
}

/** A sentence's words inside of another one; a name in capitals stays as it is. */
export function inside(text: string): string {
  return text.replace(/^[A-Z](?=[a-z]* )/, first => first.toLowerCase());
}

/** How it goes on when it is stopped, as a sentence; empty where that is not known. */
export function wayWords(job: IJob): string {
  const text = job.way_to_go_on?.text ?? '';
  return text && `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

/** What a pause now costs; empty where nothing runs. */
export function pauseCosts(job: IJob): string {
  const way = job.way_to_go_on;
  return way?.repeats_ms == null ? '' : way.stop_text;
}

/** What it counts, as its source says; a loop that also reports `epoch` counts in epochs. */
export function stepWord(
  progress: Pick<IProgress, 'step' | 'metrics' | 'unit'> | null | undefined
): string {
  return (
    progress?.unit ||
    (progress && progress.metrics['epoch'] === progress.step ? 'epoch' : 'step')
  );
}

/** The metrics worth a line, the most telling last so that "loss, accuracy" reads as a pair. */
export function tellingMetric(
  metrics: Readonly<Record<string, number>>,
  patterns = TELLING
): [string, number] | null {
  for (const pattern of patterns) {
    const found = Object.entries(metrics).find(([name]) => pattern.test(name));
    if (found) {
      return found;
    }
  }
  return Object.entries(metrics).find(([name]) => name !== 'epoch') ?? null;
}

/** "epoch 16", in what the job counts. */
export function stepText(job: IJob, step: number, msg: Messages): string {
  const word = job.progress
    ? stepWord(job.progress)
    : job.checkpoint?.unit || 'step';
  return msg.progress(msg.unit(word), count(step), null);
}

/** Where an attempt without a checkpoint of its own began: it may go on from another's. */
export function beganWords(job: IJob, msg: Messages): string {
  const from = job.attempts.at(-1)?.resumed_from_step;
  return from == null
    ? ''
    : msg.trans.__('began from %1', stepText(job, from, msg));
}
export interface IJobRow {
  dot: Dot;
  /** "running · 2 borrowed". */
  state: string;
  /** 0…100, null where nothing is counted. */
  percent: number | null;
  /** "epoch 21 of 50 · loss 0.131". */
  left: string;
  /** "saved 40 s ago". */
  right: string;
  /** Why it waits, stops or failed. */
  sentence: string;
}

export function jobRow(job: IJob, nowMs: number, msg: Messages): IJobRow {
  const row: IJobRow = {
    dot: dot(job),
    state: stateText(job, msg),
    percent: null,
    left: '',
    right: '',
    sentence: ''
  };
  if (isFinal(job)) {
    row.sentence = job.state === 'failed' ? (job.ended_text ?? '') : '';
    return row;
  }
  const waits = isWaiting(job) || job.state === 'paused';
  if (waits) {
    const queued = job.state === 'queued';
    row.left = [
      job.position != null && queued ? msg.inLine(job.position) : '',
      job.forecast && queued ? msg.likely(job.forecast) : ''
    ]
      .filter(Boolean)
      .join(' · ');
    row.sentence = waitSentence(job);
    return row;
  }
  const stop = currentAttempt(job)?.stop;
  if (stop) {
    row.sentence = stopWords(job, stop, nowMs, msg);
  }
  if (job.progress) {
    const { total_steps: total, step } = job.progress;
    row.percent = total ? percent(step, total) : null;
    row.left = progressText(job.progress, msg);
  }
  row.right = job.checkpoint ? msg.saved(nowMs - job.checkpoint.at_ms) : '';
  return row;
}

function waitSentence(job: IJob): string {
  return [wayWords(job), job.reason?.text ?? ''].filter(Boolean).join(' ');
}

export function progressText(progress: IProgress, msg: Messages): string {
  const total = progress.total_steps;
  const counted = msg.progress(
    msg.unit(stepWord(progress)),
    count(progress.step),
    total ? count(total) : null
  );
  const told = tellingMetric(progress.metrics, [/loss/i, /acc/i]);
  return told ? `${counted} · ${told[0]} ${metric(told[0], told[1])}` : counted;
}

function stateText(job: IJob, msg: Messages): string {
  const state = msg.state(job);
  if (isFinal(job)) {
    const at = `${state} ${clock(job.ended_ms ?? job.since_ms)}`;
    const told =
      job.state === 'succeeded' && job.progress
        ? tellingMetric(job.progress.metrics)
        : null;
    return told ? `${at} · ${told[0]} ${metric(told[0], told[1])}` : at;
  }
  const held = currentAttempt(job)?.milli_gpu ?? job.milli_gpu;
  const size =
    job.hold_class === 'over-quota' && !isWaiting(job)
      ? msg.borrowed(held)
      : msg.gpuCount(held);
  return `${state} · ${size}`;
}

/** Rough time left of the running attempt, from its own pace; null before it can be said. */
export function timeLeftMs(job: IJob, nowMs: number): number | null {
  const attempt = currentAttempt(job);
  const progress = job.progress;
  const started = attempt?.started_ms;
  if (!progress?.total_steps || started == null || job.state !== 'running') {
    return null;
  }
  if (job.attempts.length > 1 && attempt?.resumed_from_step == null) {
    // It may have gone on from files of its own, from a step that nobody knows.
    return null;
  }
  const first = attempt?.resumed_from_step ?? 0;
  const done = progress.step - first;
  const spent = progress.at_ms - started;
  if (done < 2 || spent <= 0) {
    return null;
  }
  const left = ((progress.total_steps - progress.step) * spent) / done;
  return Math.max(0, left - (nowMs - progress.at_ms));
}
