/** From a plan to the form of *Train*, with pages that are loaded later: Lab's start has to stay small. */
import type { IPlan } from '../server/plans';
import type { TrainModel } from './train';

/** The time limit, or the shortest on offer that is no shorter than so many seconds. */
export function longEnough(
  limitS: number | null,
  leastS: number,
  offered: readonly (number | null)[]
): number | null {
  const longer = [limitS, ...offered].filter(
    each => each !== null && each >= leastS
  ) as number[];
  if (limitS === null || limitS >= leastS) {
    return limitS;
  }
  return longer.length > 0 ? Math.min(...longer) : null;
}

/** So long a trial runs, and so long a run must hold its GPUs to teach. */
export const TRIAL_S = 300;

const TRIAL = { maxRunS: TRIAL_S, priority: 'low', overQuota: true } as const;
const ASKED = ['maxRunS', 'priority', 'overQuota'] as const;

/** Fill in a short run of a plan, which goes behind all others: the reader submits it. */
export function tryPlan(train: TrainModel, plan: IPlan): void {
  const before = { ...train.form, ...train.beforeTrial?.(train.form) };
  takePlan(train, plan, []);
  train.update(TRIAL);
  train.beforeTrial = form => {
    // What was chosen after the trial was filled in stays.
    const kept = ASKED.filter(name => form[name] === TRIAL[name]);
    return Object.fromEntries(kept.map(name => [name, before[name]]));
  };
}

/** Fill in what a plan says: the reader submits it. `limits` are the time limits on offer. */
export function takePlan(
  train: TrainModel,
  plan: IPlan,
  limits: readonly (number | null)[]
): void {
  const { milli_gpu, workers, launcher, pool } = plan;
  train.endTrial();
  const maxRunS = longEnough(train.form.maxRunS, plan.run_s.high, limits);
  train.resize(milli_gpu);
  const sizes = { workers, minWorkers: workers, maxWorkers: workers };
  train.update({ ...sizes, launcher, pool, plan: plan.id, maxRunS });
}
