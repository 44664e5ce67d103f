/** Pipelines as the server shows them, and the calls about them; they come with the page. */
import type { Api } from './api';

export interface IStep {
  name: string;
  /** `waiting`, `submitted`, `succeeded`, `failed`, `cancelled`, `refused`, `blocked`, `skipped`. */
  state: string;
  text: string;
  what: string;
  /** Names of steps, and what must have become of them. */
  after: Record<string, string>;
  inputs: { step: string; path: string; to: string }[];
  retries: number;
  job_id?: string | null;
  job_name: string;
  job_state?: string | null;
  started_ms?: number | null;
  ended_ms?: number | null;
  ended_text: string;
  version?: string | null;
}

export interface IPipeline {
  name: string;
  owner: string;
  team: string;
  state: string;
  submitted_ms: number;
  ended_ms?: number | null;
  /** Each behind those that it needs. */
  steps: IStep[];
  retry_from?: string | null;
  mine: boolean;
  steerable: boolean;
}

interface IPipelineList {
  pipelines: IPipeline[];
  cursor?: string | null;
}

/** The newest page; older ones are asked for one by one. */
export function pipelinesOf(
  api: Api,
  cursor: string | null = null
): Promise<IPipelineList> {
  const query =
    cursor === null ? '' : `?${new URLSearchParams({ cursor }).toString()}`;
  return api.request('GET', ['api', 'pipelines'], undefined, { query });
}

export function pipelineOf(api: Api, ref: string): Promise<IPipeline> {
  return api.request('GET', ['api', 'pipelines', ...ref.split('/')]);
}

export function steerPipeline(
  api: Api,
  { owner, name }: IPipeline,
  verb: 'retry' | 'cancel',
  step?: string
): Promise<IPipeline> {
  const path = ['api', 'pipelines', owner, name, verb];
  return api.request('POST', path, step === undefined ? {} : { step });
}
