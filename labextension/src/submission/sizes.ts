/** GPUs per worker as the pages let them be chosen. Pure. */
import type { ITeam } from '../server/types';
import type { ITrainForm } from './request';

/** GPUs per worker to choose from: what any team that may be meant is offered, and what is chosen. */
export function offeredSizes(
  team: string,
  teams: readonly ITeam[],
  chosen: number
): number[] {
  const meant = teams.filter(each => team === '' || each.name === team);
  const offered = meant.flatMap(each => each.sizes ?? []);
  return [...new Set([...offered, chosen])].sort((a, b) => a - b);
}

/** Whether GPUs are asked for by memory alone. */
export function isByMemory(form: ITrainForm): boolean {
  return form.gpuMemoryGib !== null && form.milliGpu === 0;
}
