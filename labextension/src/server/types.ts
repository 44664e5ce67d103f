/**
 * The words that the server speaks: views of the scheduler's `/v1`, and the messages of the one
 * WebSocket. Field names are those on the wire.
 */

import type { ICurve, IJob, IJobRequest, IRole } from './jobtypes';
import type { IJobUse, ITracked } from './jobuse';
import type { IPlanRecord } from './plans';
import type { ILostKernel, IWokenKernel, Keeps } from './lostkernels';

export * from './jobtypes';

export interface ISlice {
  slice_id: string;
  node: string;
  gpu_kind: string;
  milli_gpu: number;
  memory_mib: number;
  isolation: string;
  simulated: boolean;
  /** Of GPUs that are unhealthy. */
  trouble?: string | null;
}

export interface IIdle {
  idle_since_ms?: number | null;
  warned_ms?: number | null;
  returns_ms?: number | null;
  keeps_left: number;
  kept_until_ms?: number | null;
  /** An admin asks for the GPU, whatever was kept before. */
  reclaimed?: boolean;
  idle_after_min: number;
  warn_after_min: number;
  /** The same to the second. */
  idle_after_s?: number | null;
  warn_after_s?: number | null;
  /** What becomes of the notebook then: `hibernate`, `park`, `release` or `cull`; none of an older scheduler. */
  on_idle?: string;
  on_idle_text?: string;
  on_idle_allowed?: string[];
  /** What its server said that a stop keeps: `kernels`, `variables` or `nothing`; empty: not said yet. */
  keeps?: string;
  /** It is parked then. */
  parks?: boolean;
  /** Its user may park it now. */
  can_park?: boolean;
  /** Why it was not parked when that was tried last. */
  not_parked?: string;
}

export interface ILease {
  id: string;
  team: string;
  state: string;
  milli_gpu: number;
  slice?: ISlice | null;
  idle?: IIdle | null;
  ended_text?: string | null;
  /** Its GPU memory is on the host since then. */
  parked_ms?: number | null;
  /** While it waits to have its GPU back. */
  position?: number | null;
  requested_ms?: number;
  forecast?: { span?: string } | null;
  reason?: { text: string } | null;
}

export interface ITeamUse {
  pool: string;
  quota: {
    fixed_milli_gpu: number;
    guaranteed_milli_gpu: number;
    limit_milli_gpu?: number | null;
  };
  fixed_used_milli_gpu: number;
  guaranteed_used_milli_gpu: number;
  borrowed_milli_gpu: number;
  waiting: number;
}

export interface ITeam {
  name: string;
  mine: boolean;
  use: ITeamUse[];
  /** GPUs per worker that forms offer to it. */
  sizes?: number[];
}

export interface IPool {
  name: string;
  gpu_kind?: string | null;
}

export interface IPoolList {
  pools: IPool[];
  now_ms: number;
}

export interface IWhoAmI {
  name: string;
  teams: string[];
  admin?: boolean;
  leads?: string[];
}

export interface IEvent {
  number: number;
  at_ms: number;
  kind: string;
  by: string;
  text: string;
  workload_id?: string | null;
  team?: string | null;
  /** Of a sweep, map or pipeline: whose it is, how its page is asked for, what became of it. */
  data?: {
    why?: string;
    owner?: string;
    ref?: string;
    failed?: number;
    stopped?: boolean;
  };
}

/** A notebook could be a job: what the server found; its `data` as an event. */
export interface IJobOffer {
  /** Below the server's folder. */
  path: string;
  gpus: number;
  /** A GPU for each worker; else all for one. */
  joins: boolean;
  /** The same offer again, with newer numbers, where not. */
  is_new: boolean;
  /** Where its cell tells how far it is: when the job and when the notebook would be done. */
  done_ms?: number;
  here_ms?: number;
  /** The job is then so many times as fast. */
  times?: number;
}

/** One reading of the slice; null where the driver cannot say. */
export interface IUsageSample {
  at_ms: number;
  compute_percent: number | null;
  memory_used_mib: number | null;
  memory_limit_mib: number;
  simulated: boolean;
  /** How busy the neighbours are, in a word; never their numbers. */
  contention?: string;
  /** What keeps the slice apart now; may be less than its pool promises. */
  isolation?: string;
  /** When the agent stops a process of the slice unless it frees memory. */
  stops_ms?: number | null;
  notice?: string;
}

export interface IPackedFile {
  path: string;
  size_bytes: number;
}

export interface IFilesPreview {
  path: string;
  /** What goes along, below the server's own folder. */
  folder?: string;
  files: IPackedFile[];
  size_bytes: number;
  excluded: (IPackedFile & { reason: string; linkable: boolean })[];
  packages: { name: string; here: string | null; job: string | null }[];
  /** What it runs with unless something else is chosen: a folder of this machine. */
  environment: string;
  environment_name: string;
  /** Names that the notebook's cell tagged `parameters` sets. */
  parameters: string[] | null;
  /** What goes wrong with several workers, unless one of these launchers starts them. */
  advice: { text: string; launchers: string[] }[];
  proposal: { launcher: string; why: string };
  results_to: string | null;
}

/** What a file becomes a job with: the request, without command and snapshot. */
export interface ISubmission {
  path: string;
  request: Omit<IJobRequest, 'roles'> & { roles: Omit<IRole, 'command'>[] };
  function?: string;
  /** As for a shell; the server splits it. */
  arguments?: string;
  /** Of a script: run as `python -m`. */
  module?: string;
  /** What becomes of large files that stay behind. */
  left_out?: LeftOut;
}

export type LeftOut = 'link' | 'without';

export type SchedulerState = 'ok' | 'unreachable' | 'none';
export type UsageState = 'ok' | 'no-gpu' | 'no-data';

export type ServerMessage =
  | {
      type: 'hello';
      whoami: IWhoAmI | null;
      lease: ILease | null;
      shared_account: boolean;
      scheduler: SchedulerState;
      message?: string | null;
      now_ms?: number;
      time_limits_s?: (number | null)[]; // null = what the team's rules allow
      keeps?: Keeps;
    }
  | { type: 'usage'; state: UsageState; samples: IUsageSample[] }
  | { type: 'lease'; lease: ILease | null }
  | { type: 'jobs'; jobs: IJob[] }
  | { type: 'teams'; teams: ITeam[] }
  | {
      type: 'log';
      job: string;
      attempt: number;
      rank: number;
      lines: string[];
      end: boolean;
    }
  | ({ type: 'curve'; job: string } & ICurve)
  | ({ type: 'use'; job: string } & IJobUse)
  | ({ type: 'plan'; job: string } & IPlanRecord)
  | ({ type: 'tracked'; job: string } & ITracked)
  | { type: 'job'; job: IJob }
  | { type: 'events'; events: IEvent[] }
  | { type: 'kernels'; lost: ILostKernel[]; woken: IWokenKernel[] }
  | { type: 'error'; message: string };

/** A worker; null = all of them. */
export type Rank = number | null;

export type PageMessage =
  | { type: 'follow'; job: string; rank: Rank }
  | { type: 'unfollow'; job: string };
