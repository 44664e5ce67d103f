/** From a profile of a team to the form of *Train*, and from the form to one. Pure. */
import type { IProfile, IProfileJob } from '../server/profiles';
import type { IRole } from '../server/types';
import { AUTO, isLaunched, ITrainForm } from './request';
import { asLines, parseLines, unwritten } from './lines';

/** On a job: which profile it was started with. */
const LABEL = 'profile';

/** What the form keeps of a profile and shows nowhere else. */
export interface IStartedWith {
  key: string;
  /** What it runs by itself. */
  command: string[] | null;
  environment: string;
  job: {
    pools?: string[];
    data?: string[];
    env?: Record<string, string>;
    hibernation?: boolean;
    labels?: Record<string, string>;
    name?: string;
  };
  worker: Partial<IRole>;
  /** What it changed of the form, and what stood there before. */
  changed: Partial<ITrainForm>;
  before: Partial<ITrainForm>;
}

export function keyOf({ team, name }: IProfile): string {
  return `${team}/${name}`;
}

/** The changes of the form; fields of which it says nothing stay as they were without a profile. */
export function taking(
  profile: IProfile,
  form: ITrainForm
): Partial<ITrainForm> {
  const left = leaving(form);
  const without = { ...form, ...left };
  const changed = said(profile, without);
  const before = Object.fromEntries(
    Object.keys(changed).map(name => [name, without[name as keyof ITrainForm]])
  );
  return {
    ...left,
    ...changed,
    profile: { ...kept(profile), changed, before }
  };
}

/** Back to the form before the profile, but for what was typed since. */
export function leaving(form: ITrainForm): Partial<ITrainForm> {
  const { changed = {}, before = {} } = form.profile ?? {};
  const same = Object.keys(changed).filter(
    name => form[name as keyof ITrainForm] === changed[name as keyof ITrainForm]
  );
  return {
    ...Object.fromEntries(
      same.map(name => [name, before[name as keyof ITrainForm]])
    ),
    profile: undefined
  };
}

function said(profile: IProfile, form: ITrainForm): Partial<ITrainForm> {
  const { job } = profile;
  const workers = job.workers ?? form.workers;
  const isSized = job.milli_gpu != null || job.gpu_memory_mib != null;
  const size = {
    milliGpu: job.milli_gpu ?? 0,
    gpuMemoryGib: job.gpu_memory_mib == null ? null : job.gpu_memory_mib / 1024
  };
  return {
    ...known({
      launcher: job.launcher,
      environment: job.environment,
      cpus: job.cpu_milli == null ? null : job.cpu_milli / 1000,
      memoryGib: job.memory_mib == null ? null : job.memory_mib / 1024,
      priority: job.priority,
      overQuota: job.over_quota,
      maxRunS: job.max_run_s,
      maxPrice: job.max_price == null ? null : String(job.max_price),
      noticeSignal: job.notice_signal,
      exitAfterSignal: job.exit_after_signal,
      variables: job.env && asLines(job.env),
      secrets: job.secrets && asLines(job.secrets)
    }),
    ...(isSized ? size : {}),
    workers,
    minWorkers: job.min_workers ?? workers,
    maxWorkers: job.max_workers ?? workers,
    team: profile.team,
    pool: '',
    plan: ''
  };
}

function kept(profile: IProfile): Omit<IStartedWith, 'changed' | 'before'> {
  const { job } = profile;
  return {
    key: keyOf(profile),
    command: job.command ?? null,
    environment: job.environment ?? '',
    job: known({
      pools: job.pools,
      data: job.data,
      env: job.env,
      hibernation: job.hibernation,
      labels: { [LABEL]: profile.name },
      name: job.command ? profile.name : null
    }),
    worker: known({ gpu_kind: job.gpu_kind })
  };
}

/** What the form says, for others to start with. */
export function profileOf(form: ITrainForm): IProfileJob {
  const { profile, workers, minWorkers, maxWorkers } = form;
  const secrets = parseLines(form.secrets, true).found;
  const env = {
    ...unwritten(profile?.job.env),
    ...parseLines(form.variables).found
  };
  const isElastic = minWorkers < maxWorkers;
  return {
    ...known({
      pools: form.pool ? [form.pool] : profile?.job.pools,
      data: profile?.job.data,
      env: Object.keys(env).length > 0 ? env : null,
      hibernation: profile?.job.hibernation,
      gpu_kind: profile?.worker.gpu_kind,
      command: form.source?.kind === 'profile' ? profile?.command : null,
      environment: form.environment || null,
      launcher:
        isLaunched(form) && form.launcher !== AUTO ? form.launcher : null,
      max_run_s: form.maxRunS,
      max_price: form.maxPrice.trim() ? Number(form.maxPrice) : null,
      notice_signal: form.noticeSignal || null,
      secrets: Object.keys(secrets).length > 0 ? secrets : null,
      gpu_memory_mib:
        form.gpuMemoryGib === null ? null : Math.round(form.gpuMemoryGib * 1024)
    }),
    ...(form.milliGpu || form.gpuMemoryGib === null
      ? { milli_gpu: form.milliGpu }
      : {}),
    ...(isElastic ? { min_workers: minWorkers, max_workers: maxWorkers } : {}),
    workers,
    cpu_milli: Math.round(form.cpus * 1000),
    memory_mib: Math.round(form.memoryGib * 1024),
    priority: form.priority,
    over_quota: form.overQuota,
    exit_after_signal: form.exitAfterSignal
  };
}

type Known<T> = { [K in keyof T]?: NonNullable<T[K]> };

/** Without what is not said. */
function known<T extends object>(fields: T): Known<T> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value != null)
  ) as Known<T>;
}
