/** What is asked of the advisor, and its plans. */

export interface IPlanQuestion {
  /** A `config.json` below the server's folder. */
  config: string;
  /** In its place: jobs that trained it with this batch. */
  like: string[];
  /** A script below the server's folder: whose arguments does it take? */
  script: string;
  asked: {
    batch: number;
    sequence: number;
    steps: number;
    objective: string;
    deadline_ms: number | null;
    team: string | null;
    priority: string;
    over_quota: boolean;
    environment: string;
    cpu_milli: number;
    memory_mib: number;
  };
}

export interface IRange {
  low: number;
  high: number;
}

export interface IPlan {
  /** For the job that takes it. */
  id: string;
  pool: string;
  gpus: number;
  workers: number;
  milli_gpu: number;
  launcher: string;
  layout: string;
  script: string[];
  /** In its place: the script's own arguments. */
  arguments?: string[];
  verdict: string;
  memory_text: string;
  speed_text: string;
  wait_text: string;
  wait_note: string;
  run_s: IRange;
  finish_s: IRange | null;
  gpu_hours: number;
  cost: number | null;
  why: string;
  grade: string;
  hold_class: string;
}

export interface IAdvice {
  plans: IPlan[];
  plain_text: string;
  declined: string;
  /** A job that trained it for a while would tell. */
  try_like?: boolean;
  why_not: { gpus: number; text: string }[];
  considered: number;
  notes: string[];
  currency: string;
  /** Where it stands how right plans were. */
  record_url?: string;
  now_ms: number;
}

/** The plan of a job that runs with another number of GPUs than its plan had. */
export interface IPlanAnew {
  /** It went on from there; null = it began so. */
  step?: number | null;
  unit: string;
  gpus: number;
  /** "DDP × 2, accumulation × 2" */
  layout: string;
  batch: number;
  /** It is what a script does that takes the micro-steps that it is told. */
  as_told: boolean;
  /** fits, tight, no, not known */
  verdict: string;
  /** "9.1–10.4 samples/s" */
  speed: string;
}

/** A job's plan, as it was said, beside what came. */
export interface IPlanRecord {
  /** "FSDP × 4 on 4 × A100-40 of train, grade B" */
  text: string;
  made_ms?: number | null;
  notes: string[];
  lines: {
    what: string;
    predicted: string;
    actual: string;
    /** Moments, for the reader's own clock: first and last, and what came. */
    predicted_ms?: [number, number] | null;
    actual_ms?: number | null;
    /** Null where that cannot be said, or not yet. */
    right?: boolean | null;
  }[];
  /** Null where it has as many GPUs as planned, or nothing can be said. */
  anew?: IPlanAnew | null;
  is_over: boolean;
  record_url?: string;
}

/* Whether a job waits for its data, and what is set of its loader. */

export interface ILoaderSettings {
  /** Null = as the script says again. */
  workers: number | null;
  prefetch: number;
}

export interface ILoaderChoice {
  workers: number;
  prefetch: number;
  by: string;
  at_ms: number;
  /** The newest attempt began with it. */
  in_force: boolean;
}

export interface ILoadingHint {
  kind: string;
  values: string[];
  text: string;
}

export interface IDataAdvice {
  verdict: 'unknown' | 'fine' | 'busy' | 'bound';
  attempt?: number | null;
  batches: number;
  batch_ms: number;
  wait_ms: number;
  gpu_percent?: number | null;
  workers?: number | null;
  prefetch?: number | null;
  advised?: ILoaderSettings | null;
  low_ms: number;
  high_ms: number;
  hints: ILoadingHint[];
  chosen?: ILoaderChoice | null;
  can_choose: boolean;
  text: string;
}

/* When a metric likely comes to a goal; waiting jobs looked at together. */

export interface IOpenRange {
  /** Null = further than was looked. */
  low?: number | null;
  middle?: number | null;
  high?: number | null;
}

export interface IOutlookSize {
  gpus: number;
  /** Of running, without waits for GPUs. */
  seconds: IOpenRange;
  /** measured, runs, formula */
  basis: string;
}

export interface IParted {
  metric: string;
  trained: string;
  since: number;
}

export interface ICurveOutlook {
  metric: string;
  goal: number;
  unit: string;
  at?: number | null;
  value?: number | null;
  reached_at?: number | null;
  steps?: IOpenRange | null;
  seconds?: IOpenRange | null;
  sizes: IOutlookSize[];
  simulated: boolean;
  share_percent?: number | null;
  is_flat: boolean;
  parted: IParted[];
  text: string;
}

export interface ITogetherJob {
  id: string;
  name: string;
  gpus: number;
  gpus_asked: number;
  gpus_alone: number;
}

export interface ITogetherPool {
  pool: string;
  mean_s: number;
  mean_as_asked_s: number;
  mean_alone_s: number;
  is_best: boolean;
  jobs: ITogetherJob[];
}

export interface ITogether {
  pools: ITogetherPool[];
  unknown: string[];
  ran: string[];
  later: string[];
  text: string;
}
