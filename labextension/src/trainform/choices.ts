/** What can be chosen of sizes and time limits, as the fields show it. */
import type { ITeam } from '../server/types';
import type { ITrainForm } from '../submission/request';
import { offeredSizes } from '../submission/sizes';
import { duration, gpus } from '../text/format';
import type { IOption } from './fields';
import type { TrainMessages } from './messages';

/** The value of *no limit of its own*. */
export const NO_LIMIT = 'none';

export function sizes(
  form: ITrainForm,
  teams: readonly ITeam[],
  msg: TrainMessages
): IOption[] {
  return offeredSizes(form.team, teams, form.milliGpu).map(size => ({
    value: String(size),
    label: size === 0 ? msg.trans.__('CPU') : gpus(size)
  }));
}

export function timeLimits(
  chosen: number | null,
  offered: readonly (number | null)[],
  msg: TrainMessages
): IOption[] {
  const all = offered.includes(chosen) ? offered : [chosen, ...offered];
  return all.map(limit => ({
    value: limit === null ? NO_LIMIT : String(limit),
    label:
      limit === null ? msg.trans.__('The team’s limit') : duration(limit * 1000)
  }));
}
