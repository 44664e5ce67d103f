/** The reader's waiting jobs looked at together, as rows and sentences. No DOM. */
import type { ITogether, ITogetherPool } from '../server/plans';
import type { IJob } from '../server/types';
import type { Messages } from '../text/messages';
import { length } from '../text/format';

/** Less than this part of the time is no gain that is worth a change. */
const WORTH = 0.02;

/** What is best for all, beside what each would take for itself. */
export function poolText(pool: ITogetherPool, msg: Messages): string {
  const { trans } = msg;
  const as = (seconds: number) => length(seconds * 1000);
  const changes = pool.jobs.some(job => job.gpus !== job.gpus_asked);
  const found = changes
    ? trans.__(
        'In pool %1 they are done after %2 on average with other numbers of GPUs, %3 as they were submitted.',
        pool.pool,
        as(pool.mean_s),
        as(pool.mean_as_asked_s)
      )
    : trans.__(
        'In pool %1 they are done soonest as they were submitted: after %2 on average.',
        pool.pool,
        as(pool.mean_s)
      );
  const greedy =
    pool.mean_alone_s > (1 + WORTH) * pool.mean_s
      ? trans.__(
          'Each with what is best for it alone: %1.',
          as(pool.mean_alone_s)
        )
      : '';
  const doubt = pool.is_best
    ? ''
    : trans.__('These are the best found; not all were tried.');
  return [found, greedy, doubt].filter(Boolean).join(' ');
}

/**
 * What one button sets; none where it could not set all of it: a job of several workers has a size
 * for each of them.
 */
export function newSizes(
  pool: ITogetherPool,
  jobs: readonly Pick<IJob, 'id' | 'workers'>[]
): { id: string; milliGpu: number }[] {
  const changed = pool.jobs.filter(one => one.gpus !== one.gpus_asked);
  const isPlain = changed.every(
    one => jobs.find(job => job.id === one.id)?.workers === 1
  );
  return isPlain
    ? changed.map(one => ({ id: one.id, milliGpu: 1000 * one.gpus }))
    : [];
}

/** Whom it leaves out, and why. */
export function leftOut(found: ITogether, msg: Messages): string[] {
  const { trans } = msg;
  const named = (text: string, names: string[]) =>
    names.length > 0 ? [`${text} ${names.join(', ')}`] : [];
  return [
    ...named(trans.__('Without a plan, and so left out:'), found.unknown),
    ...named(trans.__('Ran already, and so left out:'), found.ran),
    ...named(trans.__('Submitted after the ones looked at:'), found.later)
  ];
}
