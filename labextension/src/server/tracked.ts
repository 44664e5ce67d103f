/** Runs that a job logged with MLflow, on the wire: only what its tracking server has. */

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

export interface ITracked {
  /** Its address, without what logs in there. */
  server: string;
  runs: ITrackedRun[];
  /** Why its runs are not known; else empty. */
  problem: string;
}
