/** From the *Train* form to what the server takes, and back from a job. Pure. */
import {
  ExitMeaning,
  IJob,
  IJobRequest,
  IRole,
  ISubmission,
  LeftOut,
  NoticeSignal,
  Priority
} from '../server/types';

import type { IStartedWith } from './profile';
import { asLines, parseLines, unwritten } from './lines';

export type Source =
  | { kind: 'file'; path: string }
  | { kind: 'job'; job: IJob }
  /** What a profile runs by itself. */
  | { kind: 'profile'; key: string };

export interface ITrainForm {
  source: Source | null;
  /** Of a notebook: the function to call; empty = the whole notebook. */
  functionName: string;
  /** Of a script: its arguments, written as for a shell. */
  arguments: string;
  /** Of a script: run as `python -m` with this name; empty = as a file. */
  module: string;
  /** Variables of the job, `NAME=value`, one per line. */
  variables: string;
  /** 0 where memory alone is asked for. */
  milliGpu: number;
  /** GPU memory that each worker must have; null = whatever its size has. */
  gpuMemoryGib: number | null;
  workers: number;
  /** Fewest and most workers with which it may run. */
  minWorkers: number;
  maxWorkers: number;
  launcher: string;
  /** Of a plan; empty = any of the team's. */
  pool: string;
  /** Number of the plan that it follows, for its page to compare. */
  plan?: string;
  /** What of the team's profile no field shows. */
  profile?: IStartedWith;
  /** Empty = the file's own. */
  environment: string;
  leftOut: LeftOut | '';
  maxRunS: number | null;
  /** Of a GPU per hour, as typed; empty = no limit. */
  maxPrice: string;
  team: string;
  name: string;
  priority: Priority;
  overQuota: boolean;
  cpus: number;
  memoryGib: number;
  /** One per line: `NAME` or `VARIABLE=NAME`. Names only, never values. */
  secrets: string;
  /** Sent when a stop is announced; empty = as the pool says. */
  noticeSignal: NoticeSignal | '';
  /** What an exit with status 0 after a signal means. */
  exitAfterSignal: ExitMeaning;
  /** Again and again, at the times of `cron` in `timeZone`. */
  isScheduled: boolean;
  cron: string;
  timeZone: string;
}

/** The launcher that the script proposes. */
export const AUTO = 'auto';
export const PLAIN = 'plain';

export const EMPTY_FORM: ITrainForm = {
  source: null,
  functionName: '',
  arguments: '',
  module: '',
  variables: '',
  milliGpu: 1000,
  gpuMemoryGib: null,
  workers: 1,
  minWorkers: 1,
  maxWorkers: 1,
  launcher: AUTO,
  pool: '',
  environment: '',
  leftOut: '',
  maxRunS: 7200,
  maxPrice: '',
  team: '',
  name: '',
  priority: 'normal',
  overQuota: true,
  cpus: 1,
  memoryGib: 2,
  secrets: '',
  noticeSignal: '',
  exitAfterSignal: 'preempted',
  isScheduled: false,
  cron: '',
  timeZone: ''
};

/** What the field of GPU memory begins with. */
const FIRST_GPU_MEMORY_GIB = 12;

/** Fields that people type a number into. */
export type NumberName =
  | 'workers'
  | 'minWorkers'
  | 'maxWorkers'
  | 'cpus'
  | 'memoryGib'
  | 'gpuMemoryGib';
/** What was typed there and cannot be taken. */
export type Typed = Partial<Record<NumberName, string>>;

const RANGES: Partial<Record<NumberName, [number, number]>> = {
  workers: [1, 1024],
  cpus: [0.5, 1024],
  memoryGib: [0.25, 16_384],
  gpuMemoryGib: [0.5, 16_384]
};

/** The least and the most that may stand there. */
export function range(name: NumberName, form: ITrainForm): [number, number] {
  const { workers } = form;
  const most = RANGES.workers?.[1] ?? workers;
  return (
    RANGES[name] ?? (name === 'maxWorkers' ? [workers, most] : [1, workers])
  );
}

/** Workers are counted. */
export function isWhole(name: NumberName): boolean {
  return range(name, EMPTY_FORM)[0] === 1;
}

/** The form with what was typed, where it can be taken; the rest of it stays as it was typed. */
export function taken(
  old: ITrainForm,
  typed: Typed
): { form: ITrainForm; typed: Typed } {
  const form = { ...old };
  const left: Typed = {};
  const take = (name: NumberName) => {
    const text = typed[name];
    const value = Number(text || NaN);
    const [min, max] = range(name, form);
    if (value >= min && value <= max && !(isWhole(name) && value % 1)) {
      form[name] = value;
    } else if (text !== undefined) {
      left[name] = text;
    }
  };
  take('gpuMemoryGib');
  take('cpus');
  take('memoryGib');
  take('workers');
  if (old.minWorkers === old.workers || form.minWorkers > form.workers) {
    form.minWorkers = form.workers;
  }
  if (old.maxWorkers === old.workers || form.maxWorkers < form.workers) {
    form.maxWorkers = form.workers;
  }
  take('minWorkers');
  take('maxWorkers');
  if (form.workers === 1) {
    // It is not asked for.
    delete left.minWorkers;
  }
  return { form, typed: left };
}

/** The form with this size, or by memory where that is null; what was typed of the other is over. */
export function sized(
  form: ITrainForm,
  typed: Typed,
  milliGpu: number | null
): { form: ITrainForm; typed: Typed } {
  const left = { ...typed };
  delete left.gpuMemoryGib;
  const gpuMemoryGib =
    milliGpu === null ? (form.gpuMemoryGib ?? FIRST_GPU_MEMORY_GIB) : null;
  return {
    form: { ...form, milliGpu: milliGpu ?? 0, gpuMemoryGib },
    typed: left
  };
}

/** Something in the form that cannot be sent, with its line where that says more. */
export interface IMistake {
  field: NumberName | 'arguments' | 'secrets' | 'variables' | 'maxPrice';
  line?: string;
}

export function mistakesIn(form: ITrainForm, typed: Typed): IMistake[] {
  return [
    ...(closesQuotes(form.arguments) ? [] : [{ field: 'arguments' as const }]),
    ...(Object.keys(typed) as NumberName[]).map(field => ({ field })),
    ...(Number(form.maxPrice) >= 0 ? [] : [{ field: 'maxPrice' as const }]),
    ...(['secrets', 'variables'] as const).flatMap(field => {
      const { wrong } = parseLines(form[field], field === 'secrets');
      return wrong === null ? [] : [{ field, line: wrong }];
    })
  ];
}

/** As a shell reads it. */
export function closesQuotes(text: string): boolean {
  return /^(?:[^\\'"]|\\[^]|'[^']*'|"(?:[^\\"]|\\[^])*")*$/.test(text);
}

function role(form: ITrainForm): Omit<IRole, 'command'> {
  return {
    ...form.profile?.worker,
    name: 'worker',
    count: form.workers,
    milli_gpu: form.milliGpu,
    gpu_memory_mib:
      form.gpuMemoryGib === null ? null : Math.round(form.gpuMemoryGib * 1024),
    cpu_milli: Math.round(form.cpus * 1000),
    memory_mib: Math.round(form.memoryGib * 1024)
  };
}

/** With how many it may run: never fewer than it asks for. */
export function mostWorkers(form: ITrainForm): number {
  return Math.max(form.workers, form.maxWorkers);
}

/** Whether there is something to join: several workers, or several GPUs of one. */
export function canBeLaunched(form: ITrainForm): boolean {
  return mostWorkers(form) > 1 || form.milliGpu > 1000;
}

/** Whether something has to join processes: several workers, or a launcher chosen for several GPUs. */
export function isLaunched(form: ITrainForm): boolean {
  return (
    canBeLaunched(form) && (mostWorkers(form) > 1 || form.launcher !== AUTO)
  );
}

function options(form: ITrainForm): Omit<IJobRequest, 'roles'> {
  const base = form.source?.kind === 'job' ? form.source.job.request : null;
  const most = mostWorkers(form);
  const elastic = form.minWorkers < most;
  return {
    ...base,
    ...form.profile?.job,
    ...(form.name ? { name: form.name } : {}),
    team: form.team || null,
    priority: form.priority,
    over_quota: form.overQuota,
    max_run_s: form.maxRunS,
    max_price: form.maxPrice.trim() ? Number(form.maxPrice) : null,
    min_workers: elastic ? form.minWorkers : null,
    max_workers: elastic ? most : null,
    launcher: isLaunched(form) ? form.launcher : PLAIN,
    ...(form.pool ? { pools: [form.pool] } : {}),
    environment: form.environment,
    env: {
      ...unwritten({ ...base?.env, ...form.profile?.job.env }),
      ...parseLines(form.variables).found
    },
    secrets: parseLines(form.secrets, true).found,
    notice_signal: form.noticeSignal || null,
    exit_after_signal: form.exitAfterSignal,
    ...(form.source?.kind === 'job' ? { parent: form.source.job.id } : {}),
    // What the job asked for when it was submitted is done with.
    resume_from: null,
    // So is what was said of it before.
    plan: form.plan || undefined
  };
}

/** The whole request. A file's command is made by the server; the quote does not depend on it. */
export function jobRequest(form: ITrainForm): IJobRequest {
  const base = form.source?.kind === 'job' ? form.source.job.request : null;
  const own = form.source?.kind === 'profile' && form.profile?.command;
  const command = own || (base?.roles[0]?.command ?? ['python']);
  const first: IRole = { ...base?.roles[0], ...role(form), command };
  first.name = base?.roles[0]?.name ?? first.name;
  const others = base?.roles.slice(1) ?? [];
  return { ...options(form), roles: [first, ...others] };
}

export function submission(form: ITrainForm, path: string): ISubmission {
  const request = { ...options(form), roles: [role(form)] };
  return {
    path,
    request,
    function: form.functionName || undefined,
    ...(form.arguments.trim() ? { arguments: form.arguments } : {}),
    module: form.module.trim() || undefined,
    left_out: form.leftOut || undefined
  };
}

/** The scheduler numbers anew; a trial is numbered below the number of its sweep, which is taken. */
function nameByItself(name: string, parent: string | undefined): string {
  const isTrial = parent === 'sweep' || parent === 'map';
  return name.replace(isTrial ? /-\d+(-\d+)?$/ : /-\d+$/, '');
}

/** The form that would submit this job once more. */
export function formOfJob(job: IJob): ITrainForm {
  const request = job.request;
  const first = request?.roles[0];
  const memoryMib = first?.gpu_memory_mib ?? null;
  const milliGpu = first?.milli_gpu ?? EMPTY_FORM.milliGpu;
  return {
    ...EMPTY_FORM,
    source: { kind: 'job', job },
    // A share was found by its memory; whole GPUs are asked for by number, and must have it.
    milliGpu: memoryMib !== null && milliGpu <= 1000 ? 0 : milliGpu,
    gpuMemoryGib: memoryMib === null ? null : memoryMib / 1024,
    workers: first?.count ?? 1,
    minWorkers: request?.min_workers ?? first?.count ?? 1,
    maxWorkers: request?.max_workers ?? first?.count ?? 1,
    launcher: request?.launcher ?? AUTO,
    environment: request?.environment ?? '',
    maxRunS: request?.max_run_s ?? null,
    maxPrice: String(request?.max_price ?? ''),
    team: job.team,
    name: nameByItself(request?.name ?? '', job.part_of?.kind),
    priority: request?.priority ?? 'normal',
    overQuota: request?.over_quota ?? true,
    cpus: (first?.cpu_milli ?? 1000) / 1000,
    memoryGib: (first?.memory_mib ?? 2048) / 1024,
    variables: asLines(request?.env),
    secrets: asLines(request?.secrets),
    noticeSignal: request?.notice_signal ?? '',
    exitAfterSignal: request?.exit_after_signal ?? 'preempted'
  };
}
