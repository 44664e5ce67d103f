/** What a job used of the GPUs that it held, and what it logged elsewhere, on the wire. */

export interface IUseSpan {
  from_ms: number;
  to_ms: number;
  held_milli_gpu: number;
  /** Null where nothing was measured. */
  used_milli_gpu?: number | null;
  memory_used_mib?: number | null;
}

/** What a job used of the GPUs that it asked for. */
export interface IJobUse {
  spans: IUseSpan[];
  asked_milli_gpu: number;
  used_milli_gpu?: number | null;
  memory_used_mib_max?: number | null;
  /** GPU memory of the worker that has most; null where it is not known. */
  memory_held_mib?: number | null;
  /** "asked 2 GPUs, used 0.2". */
  text: string;
  /** What was used is processor time: any of its GPUs were simulated. */
  simulated: boolean;
  /** Why it borrows though its team's guarantee has room for it; '' where neither is so. */
  borrowed_text?: string;
}

export interface ITrackedRun {
  run_id: string;
  name: string;
  status: string;
  url: string;
  metrics: number;
  /** Null where there is nothing to see. */
  metrics_url?: string | null;
  artifacts_url?: string | null;
}

/** Runs that a job logged with MLflow: only what its tracking server has. */
export interface ITracked {
  /** Its address, without what logs in there. */
  server: string;
  runs: ITrackedRun[];
  /** Why its runs are not known; else empty. */
  problem: string;
}
