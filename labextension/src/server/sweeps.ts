/** Sweeps as the server shows them, and the calls about them; they come with the pages that ask. */
import type { Api } from './api';
import type { IJobRequest } from './types';

export type Value = string | number | boolean;

export interface ITrial {
  number: number;
  values: Record<string, Value>;
  /** `drawn`, `waiting`, `live`, `held` (at a rung), `paused` (by a person), `done`, `failed`, `ended`. */
  state: string;
  job_id?: string | null;
  job_name: string;
  best?: number | null;
  best_step: number;
  best_ms: number;
  step: number;
  /** Rungs that it has come to. */
  rungs: number;
  milli_gpu_s: number;
  text: string;
}

export interface IRung {
  step: number;
  came: number;
  went_on: number;
}

/** A value that was the best of its sweep when it was told. */
export interface IImprovement {
  at_ms: number;
  trial: number;
  value: number;
}

export interface ISweep {
  id: string;
  /** `sweep` or `map`. */
  kind: string;
  name: string;
  owner: string;
  team: string;
  made_ms: number;
  ended_ms?: number | null;
  text: string;
  metric: string;
  direction: string;
  sampler: string;
  /** What each parameter is drawn from, in words; not in lists. */
  drawn?: string[];
  max_parallel: number;
  trials_of: number;
  begun: number;
  running: number;
  waiting: number;
  paused: number;
  done: number;
  failed: number;
  milli_gpu_s: number;
  budget_milli_gpu_s?: number | null;
  until_ms?: number | null;
  best?: ITrial | null;
  /** The best so far over time, oldest first; not in lists. */
  improvements?: IImprovement[];
  /** There were more than are kept. */
  improvements_thinned: boolean;
  /** Of what was told before it was recorded only each trial's best is known. */
  improvements_begun_late: boolean;
  rungs: IRung[];
  /** Best first; not in lists. */
  trials: ITrial[];
  request?: IJobRequest | null;
  steerable: boolean;
  /** No real GPUs stand behind those that it may get. */
  simulated?: boolean;
}

export interface IFigures {
  /** What was held from then on. */
  gpus: { at_ms: number; milli_gpu: number }[];
  importance: Record<string, number>;
  importance_text: string;
}

interface ISweepList {
  sweeps: ISweep[];
  cursor?: string | null;
}

/** A page of them, newest first. */
export function sweepsOf(
  api: Api,
  cursor: string | null = null
): Promise<ISweepList> {
  const query =
    cursor === null ? '' : `?${new URLSearchParams({ cursor }).toString()}`;
  return api.request('GET', ['api', 'sweeps'], undefined, { query });
}

export function sweepOf(api: Api, ref: string): Promise<ISweep> {
  return api.request('GET', ['api', 'sweeps', ref]);
}

export function figuresOf(api: Api, ref: string): Promise<IFigures> {
  return api.request('GET', ['api', 'sweeps', ref, 'figures']);
}

export function stopSweep(api: Api, ref: string): Promise<ISweep> {
  return api.request('POST', ['api', 'sweeps', ref, 'stop'], {});
}

export function addToBudget(
  api: Api,
  ref: string,
  more: { trials: number; gpu_hours: number },
  key: string
): Promise<ISweep> {
  return api.request('POST', ['api', 'sweeps', ref, 'budget'], more, { key });
}

/** Search over a file, or over what a job asked for; the same key again makes no second sweep. */
export function submitSweep(
  api: Api,
  body: object,
  key: string
): Promise<ISweep> {
  return api.request('POST', ['sweep'], body, { key });
}
