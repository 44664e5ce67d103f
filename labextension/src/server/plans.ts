/** What is asked of the advisor, and its plans. */

export interface IPlanQuestion {
  /** A `config.json` below the server's folder. */
  config: string;
  /** In its place: jobs that trained it with this batch. */
  like: string[];
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
    /** Null where that cannot be said, or not yet. */
    right?: boolean | null;
  }[];
  is_over: boolean;
  record_url?: string;
}
