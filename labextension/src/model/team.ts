/** The bars of *My team*: what is held of what a team may hold, over all its pools. No DOM. */
import { percent } from '../text/format';
import { ITeam } from '../server/types';

export interface IShare {
  used: number;
  quota: number;
  borrowed: number;
  usedPercent: number;
  borrowedPercent: number;
  /** Where the quota ends on the bar. */
  quotaPercent: number;
}

export interface ITeamBars {
  name: string;
  notebooks: IShare | null;
  training: IShare | null;
  waiting: number;
  /** Pools with a quota or use, for the caption. */
  pools: string[];
}

export function teamBars(team: ITeam): ITeamBars {
  const sum = (value: (use: ITeam['use'][number]) => number) =>
    team.use.reduce((total, use) => total + value(use), 0);
  const fixed = sum(use => use.quota.fixed_milli_gpu);
  const fixedUsed = sum(use => use.fixed_used_milli_gpu);
  const guaranteed = sum(use => use.quota.guaranteed_milli_gpu);
  const guaranteedUsed = sum(use => use.guaranteed_used_milli_gpu);
  const borrowed = sum(use => use.borrowed_milli_gpu);
  // The bar's whole length is the limit; a team without one may borrow what is free, so the bar
  // ends where its use or guarantee ends.
  const reach = Math.max(
    guaranteed,
    guaranteedUsed + borrowed,
    sum(use => use.quota.limit_milli_gpu ?? 0)
  );
  return {
    name: team.name,
    notebooks:
      fixed > 0 || fixedUsed > 0 ? share(fixedUsed, fixed, 0, fixed) : null,
    training:
      reach > 0 ? share(guaranteedUsed, guaranteed, borrowed, reach) : null,
    waiting: sum(use => use.waiting),
    pools: team.use.map(use => use.pool)
  };
}

function share(
  used: number,
  quota: number,
  borrowed: number,
  whole: number
): IShare {
  return {
    used,
    quota,
    borrowed,
    usedPercent: percent(used, whole),
    borrowedPercent: percent(borrowed, whole),
    quotaPercent: percent(quota, whole)
  };
}
