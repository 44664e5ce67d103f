/** Pipelines as the server shows them, and the calls about them; they come with the page. */
import type { Api } from './api';
import type { IFilesPreview } from './types';

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
  /** No real GPUs stand behind those that it may get. */
  simulated?: boolean;
}

interface IPipelineList {
  pipelines: IPipeline[];
  cursor?: string | null;
}

/** A step of a file that did not run yet. */
export interface IStepOfFile {
  name: string;
  /** Size and command of each of its roles, whole. */
  runs: string[];
  /** How many combinations of values it runs with. */
  copies: number;
  after: Record<string, string>;
  /** `clean/data.csv`. */
  inputs: string[];
  /** Name, path or image; "" is the default. */
  environment: string;
  /** `HF_TOKEN=hugging-face`. */
  secrets: string[];
  /** `EPOCHS=5`. */
  variables: string[];
  /** Below the owner's home. */
  links: string[];
  results_to: string | null;
  /** All else that the file says of it: `pools=a100, h100`. */
  others: string[];
}

/** A folder that goes along with steps. */
export interface IFolderOfSteps {
  folder: string;
  files: number;
  size_bytes: number;
  excluded: IFilesPreview['excluded'];
  /** What can be linked from the home is linked. */
  linked: boolean;
}

/** What a file of steps would run. */
export interface IPipelineFile {
  path: string;
  name: string;
  team: string | null;
  /** Each behind those that it needs. */
  steps: IStepOfFile[];
  folders: IFolderOfSteps[];
  /** Hash of all of it: nothing else runs. */
  seen: string;
}

export function pipelineFileOf(api: Api, path: string): Promise<IPipelineFile> {
  const query = `?${new URLSearchParams({ path }).toString()}`;
  return api.request('GET', ['pipeline'], undefined, { query });
}

/** Pack, upload and run what was shown; the same key again makes no second pipeline. */
export function runPipelineFile(
  api: Api,
  { path, seen }: IPipelineFile,
  team: string | null,
  key: string
): Promise<IPipeline> {
  return api.request('POST', ['pipeline'], { path, team, seen }, { key });
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
