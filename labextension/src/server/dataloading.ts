/** Whether a job waits for its data, and what is set of its loader, on the wire. */

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
