/** Schedules as the server shows them, and the calls about them; they come with the pages that ask. */
import type { Api } from './api';

/** In the place of the state of a run's job that is no longer kept. */
export const FORGOTTEN = 'forgotten';

export interface IScheduleRun {
  /** `started`, `missed`, `skipped` or `refused`. */
  outcome: string;
  due_ms: number;
  /** The last of several. */
  until_ms?: number | null;
  count: number;
  /** Why it did not start. */
  text: string;
  job_id?: string | null;
  job_name: string;
  /** Of its job, or FORGOTTEN; null where none was started, or an earlier release does not say. */
  job_state?: string | null;
  by_hand: boolean;
  /** The trigger whose time it was, and what happened. */
  trigger?: string;
  cause?: string;
  /** Of the data that it started with. */
  version?: string;
  /** Of its model: `promoted`, `kept`, `waits` or `none`; empty = not compared yet. */
  verdict?: string;
  why?: string;
  value?: number | null;
}

export interface IPromoted {
  job_id: string;
  job_name: string;
  since_ms: number;
  why: string;
}

export interface ITrigger {
  /** `path`, `url`, `command`, `after` or `metric`. */
  kind: string;
  words: string;
  /** A path, an address, a command, a job or a metric. */
  what: string;
  /** Of a job: `ok`, `any` or `failed`. */
  on?: string | null;
  /** Of a metric: below what it has to fall. */
  below?: number | null;
  every_s?: number | null;
  version: string;
  checked_ms?: number | null;
  changed_ms?: number | null;
  /** Why the last look told nothing. */
  problem: string;
  value?: number | null;
  posted_ms?: number | null;
}

export interface ISchedule {
  name: string;
  owner: string;
  team: string;
  /** Empty: triggers alone start it. */
  schedule: string;
  triggers?: ITrigger[];
  /** The metric by which models are compared; empty: they are not. */
  compared_by?: string;
  promoted?: IPromoted | null;
  time_zone: string;
  concurrency_policy: string;
  starting_deadline_s?: number | null;
  suspend: boolean;
  /** A lead or an admin did. */
  held: boolean;
  /** A run was asked for and starts soon. */
  asked: boolean;
  what: string;
  kind: string;
  next_ms: number[];
  hindrance: string;
  runs: IScheduleRun[];
  mine: boolean;
  steerable: boolean;
  /** No real GPUs stand behind those that it may get. */
  simulated?: boolean;
}

export type ScheduleVerb = 'run' | 'suspend' | 'resume' | 'remove';

interface IScheduleList {
  schedules: ISchedule[];
  cursor?: string | null;
}

/** All that this user may see, page by page. */
export async function schedulesOf(api: Api): Promise<ISchedule[]> {
  const found: ISchedule[] = [];
  let cursor: string | null = null;
  do {
    const query: string =
      cursor === null ? '' : `?${new URLSearchParams({ cursor }).toString()}`;
    const path = ['api', 'schedules'];
    const page: IScheduleList = await api.request('GET', path, undefined, {
      query
    });
    found.push(...page.schedules);
    cursor = page.cursor ?? null;
  } while (cursor !== null);
  return found;
}

/** One with all of its runs that are remembered. */
export function scheduleOf(
  api: Api,
  { owner, name }: ISchedule
): Promise<ISchedule> {
  return api.request('GET', ['api', 'schedules', owner, name]);
}

export function steerSchedule(
  api: Api,
  { owner, name }: ISchedule,
  verb: ScheduleVerb
): Promise<ISchedule> {
  return api.request('POST', ['api', 'schedules', owner, name, verb], {});
}

/** Let the model of this run be the promoted one. */
export function promote(
  api: Api,
  { owner, name }: ISchedule,
  job: string
): Promise<ISchedule> {
  const path = ['api', 'schedules', owner, name, 'promote'];
  return api.request('POST', path, { job });
}

export async function nextTimes(
  api: Api,
  schedule: string,
  timeZone: string
): Promise<number[]> {
  const asked = new URLSearchParams({ schedule, time_zone: timeZone });
  const answer = await api.request<{ next_ms: number[] }>(
    'GET',
    ['api', 'schedule-times'],
    undefined,
    { query: `?${asked.toString()}` }
  );
  return answer.next_ms;
}

/** Start a file, or what a job asked for, again and again. */
export function putSchedule(api: Api, body: object): Promise<ISchedule> {
  return api.request('POST', ['schedule'], body);
}
