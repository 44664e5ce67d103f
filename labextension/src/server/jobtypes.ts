/** Jobs as the server shows and takes them. Field names are those on the wire. */

/** What alone is in the way of a job, and what its owner can do about it. */
export interface IBlocker {
  text: string;
  /** `release` a notebook's GPU, `leave` a ticket, `pause` a job; null: ask somebody. */
  action?: string | null;
  id: string;
}

export interface IReason {
  code: string;
  text: string;
  unblock?: string | null;
  /** GPUs per worker with which the job would start now. */
  startable_milli_gpu?: number | null;
  blocker?: IBlocker | null;
}

/** When a wait is likely to end: lengths from `made_ms`, or why there is none. */
export interface IForecast {
  made_ms: number;
  from_ms?: number | null;
  to_ms?: number | null;
  /** Of ten past windows of such waits, so many were right. */
  right_of_ten?: number | null;
  /** `known`, or a wide range with little to judge by: `thin`, `wrong`. */
  basis?: string;
  /** A wide range in a few words: "between 5 min and 3 h". */
  span?: string;
  unknown?: string | null;
  /** Where little is known and a time limit says so: it starts within this length. */
  at_latest_ms?: number | null;
  /** All of it in one sentence. */
  text: string;
  /** What would start it now, one sentence each. */
  ways: string[];
}

export interface ICheckpoint {
  step: number;
  size_bytes: number;
  at_ms: number;
  /** What the step counts, where another job saved it. */
  unit?: string;
}

export type Metrics = Record<string, number>;

export interface IProgress {
  step: number;
  total_steps?: number | null;
  metrics: Metrics;
  at_ms: number;
  /** What steps count, where the source says so. */
  unit?: string;
  /** Where it was read: `report` is the script itself. */
  source?: string;
}

export interface IStop {
  why: string;
  /** "for nlp (its guarantee)". */
  text: string;
  announced_ms: number;
  term_ms: number;
  kill_ms: number;
}

/** How tightly an attempt's GPUs lie together, as far as that is known. */
export interface ITightness {
  gpus: number;
  nodes: number;
  /** Of those on several nodes; null where a node's rack is not known. */
  racks?: number | null;
  /** Of those on one node: the farthest. Empty where it is not known. */
  link: string;
}

/** The same steps take longer there than elsewhere: on one node, or on two together. */
export interface ISlowPlace {
  nodes: string[];
  percent: number;
  since_ms: number;
  until_ms: number;
}

export interface IAttempt {
  id: string;
  number: number;
  state: string;
  hold_class: string;
  node?: string | null;
  nodes: string[];
  /** Absent where it has fewer than two GPUs. */
  tightness?: ITightness | null;
  /** Of one that holds its place now. */
  slow?: ISlowPlace[];
  milli_gpu: number;
  /** Of its first role. */
  workers?: number;
  /** Than the attempt before, where that had another number of workers and both were measured. */
  times_faster?: number | null;
  reserved_ms: number;
  started_ms?: number | null;
  ended_ms?: number | null;
  exit_code?: number | null;
  ended_text?: string | null;
  resumed_from_step?: number | null;
  stop?: IStop | null;
}

export type Priority = 'low' | 'normal' | 'high';
export type NoticeSignal = 'SIGUSR1' | 'none';
export type ExitMeaning = 'preempted' | 'success';

export interface IRole {
  name: string;
  count: number;
  /** With `gpu_memory_mib` 0 is the smallest slice that has so much. */
  milli_gpu: number;
  gpu_memory_mib?: number | null;
  gpu_kind?: string | null;
  cpu_milli: number;
  memory_mib: number;
  command: string[];
}

/** A job as people ask for it; what is left out gets the defaults of team and pool. */
export interface IJobRequest {
  name?: string;
  kind?: 'training' | 'retrain';
  team?: string | null;
  /** Where it may run; none: any of its team's. */
  pools?: string[] | null;
  roles: IRole[];
  min_workers?: number | null;
  max_workers?: number | null;
  priority?: Priority;
  over_quota?: boolean;
  max_run_s?: number | null;
  max_price?: number | null;
  /** How several workers find each other; `auto` = as the script proposes. */
  launcher?: string;
  environment?: string;
  snapshot?: string | null;
  env?: Record<string, string>;
  secrets?: Record<string, string>;
  labels?: Record<string, string>;
  results_to?: string | null;
  /** Sent when a stop is announced; null = as the pool says. */
  notice_signal?: NoticeSignal | null;
  /** What an exit with status 0 after a signal means. */
  exit_after_signal?: ExitMeaning;
  /** Jobs that must have succeeded first. */
  after?: string[];
  not_before_ms?: number;
  /** The id of the job that it was made from. */
  parent?: string | null;
  /** Go on from what this job saved; one that still waits gives way. */
  resume_from?: string | null;
  /** The plan that it follows. */
  plan?: string;
}

/** What a job wrote, and where it is: only what is known. */
export interface IResults {
  state:
    | 'later'
    | 'copying'
    | 'here'
    | 'none'
    | 'never_ran'
    | 'lost'
    | 'unknown'
    | 'left_out'
    | 'stayed'
    | 'away';
  text: string;
  /** Below the owner's home folder. */
  folder?: string | null;
  count: number;
  size_bytes: number;
  /** The first of them. */
  files: { path: string; size_bytes: number }[];
  not_brought: { path: string; reason: string }[];
  not_brought_count?: number;
}

/** What becomes of a job's work when it is stopped, in the scheduler's words. */
export interface IWayToGoOn {
  way: string;
  /** "goes on from step 5,430" */
  text: string;
  /** What a stop now costs. */
  stop_text: string;
  /** None where nothing runs. */
  repeats_ms?: number | null;
  /** How often it began anew; empty where it never did. */
  began_anew_text?: string;
  /** The reason for which it waits tells this way already. */
  in_reason?: boolean;
}

/** Whether a job goes on where it was, in the scheduler's words. */
export interface IDrill {
  state: 'testing' | 'passed' | 'failed' | 'untold';
  /** "Tested: stops and goes on at step 200 (41 s)." */
  text: string;
  step?: number | null; // where it is to go on
}

export interface IPartOf {
  id: string;
  kind: string;
  name: string;
  /** From 1; 0 where its jobs are not counted. */
  number: number;
}

export interface IJob {
  id: string;
  name: string;
  kind: string;
  team: string;
  owner: string;
  state: string;
  state_text?: string;
  hold_class?: string | null;
  pools: string[];
  pool?: string | null;
  milli_gpu: number;
  workers: number;
  priority: string;
  over_quota: boolean;
  submitted_ms: number;
  since_ms: number;
  ended_ms?: number | null;
  ended_text?: string | null;
  reason?: IReason | null;
  position?: number | null;
  forecast?: IForecast | null;
  progress?: IProgress | null;
  checkpoint?: ICheckpoint | null;
  /** None where nothing of it ran yet. */
  way_to_go_on?: IWayToGoOn | null;
  /** What its last stop has shown, or is to show. */
  drill?: IDrill | null;
  /** Code like its own was stopped and went on. */
  safe_to_borrow?: boolean;
  attempts: IAttempt[];
  /** Pauses that are over. */
  pauses?: { from_ms: number; to_ms: number }[];
  held_milli_gpu_s: number;
  lost_milli_gpu_s: number;
  simulated: boolean;
  /** The file that became the job. */
  source?: string | null;
  /** The sweep, map, schedule or pipeline that it is part of. */
  part_of?: IPartOf | null;
  /** Not in lists. */
  results?: IResults | null;
  request?: IJobRequest | null;
  /** Why it cannot be run again by whoever looks; null where it can. */
  again_hindrance?: string | null;
  /** What it reports is refused, and why. */
  reports_refused?: string | null;
  warnings?: string[]; // what likely goes wrong with several workers
  /** Fields of it that a list left empty because they are long. */
  request_lacks?: string[];
}

export interface IQuote {
  hold_class: string;
  /** Whether others could stop the job, and why it would wait. */
  text: string;
  stop_text?: string; // what then becomes of its work
  drill_text?: string; // that it is known to go on, or will be tested
  warnings?: string[]; // what likely goes wrong, and what to do
}

export interface ICurvePoint {
  attempt: number;
  step: number;
  at_ms: number;
  metrics: Metrics;
  /** What steps count, where the source says so. */
  unit?: string;
}

/** Where a curve was read. */
export type CurveSource = 'report' | 'trainer' | 'tensorboard' | 'log';

export interface ICurve {
  points: ICurvePoint[];
  source?: CurveSource;
  /** All that have points. */
  sources?: CurveSource[];
}

/** What jobs may run with, as the server lists it. */
export interface IEnvironments {
  kind: 'folder' | 'image';
  /** The image of this notebook, which its jobs run in by default. */
  default?: string;
  environments: { environment: string; name: string; python: string }[];
  /** What may start a job's workers here. */
  launchers?: string[];
}
