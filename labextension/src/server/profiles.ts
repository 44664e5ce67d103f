/** Profiles of teams as the server shows them, and the calls about them. */
import type { Api } from './api';
import type { ExitMeaning, NoticeSignal, Priority } from './types';

/** What a profile says of a job; what it leaves out stays as the form has it. */
export interface IProfileJob {
  launcher?: string | null;
  environment?: string | null;
  workers?: number | null;
  min_workers?: number | null;
  max_workers?: number | null;
  milli_gpu?: number | null;
  gpu_memory_mib?: number | null;
  gpu_kind?: string | null;
  cpu_milli?: number | null;
  memory_mib?: number | null;
  pools?: string[] | null;
  data?: string[] | null;
  priority?: Priority | null;
  over_quota?: boolean | null;
  max_run_s?: number | null;
  max_price?: number | null;
  env?: Record<string, string> | null;
  secrets?: Record<string, string> | null;
  notice_signal?: NoticeSignal | null;
  exit_after_signal?: ExitMeaning | null;
  hibernation?: boolean | null;
  /** What it runs where it needs no file. */
  command?: string[] | null;
}

export interface IProfile {
  team: string;
  name: string;
  description: string;
  callback?: string | null;
  /** The line of that framework. */
  callback_line: string;
  job: IProfileJob;
  published_by: string;
  steerable: boolean;
}

/** Those of the user's teams. */
export async function profilesOf(api: Api): Promise<IProfile[]> {
  const found = await api.request<{ profiles: IProfile[] }>('GET', [
    'api',
    'profiles'
  ]);
  return found.profiles;
}

export function publishProfile(
  api: Api,
  team: string,
  name: string,
  body: { description: string; job: IProfileJob }
): Promise<IProfile> {
  return api.request('POST', ['api', 'profiles', team, name], body);
}

export function removeProfile(
  api: Api,
  { team, name }: IProfile
): Promise<IProfile> {
  return api.request('POST', ['api', 'profiles', team, name, 'remove'], {});
}
