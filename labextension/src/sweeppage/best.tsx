/** The best trial, and what one goes on with: the same with more GPUs, or again each night. */
import * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { h } from '../components/h';
import { ActionButton, Callout } from '../components/parts';
import { CommandIDs } from '../lab/ids';
import { askedBy } from '../model/jobs';
import { ownZone } from '../schedulepage/zonedtime';
import { told } from '../server/api';
import type { ISweep } from '../server/sweeps';
import type { IJob } from '../server/types';
import { offeredSizes } from '../submission/sizes';
import { keepDraft } from '../submission/sweep';
import { sweepMessages } from './messages';
import { valueText } from './trials';

const NIGHTLY = '0 2 * * *';
/** So many GPUs are proposed where the team is offered them. */
const PROPOSED = 4;

export function GoOnWithBest({
  sweep
}: {
  sweep: ISweep;
}): React.JSX.Element | null {
  const { model, train, commands, msg: words, trans } = usePanel();
  const msg = useWords(sweepMessages);
  const [problem, setProblem] = React.useState<string | null>(null);
  const { best } = sweep;
  const job = best?.job_id;
  const notMine = useHindrance(sweep, job ?? null);
  if (!best || job == null) {
    return null;
  }
  const sizes = offeredSizes(sweep.team, model.myTeams, 0)
    .filter(each => each % 1000 === 0 && each <= PROPOSED * 1000)
    .map(each => each / 1000);
  const count = Math.max(1, ...sizes);
  const fill = async (change: object, milliGpu: number | null) => {
    try {
      const asked = askedBy(await model.api.job(job), model.whoami);
      keepDraft(train, { isSwept: false });
      train.prefill(asItsOwn(asked));
      if (milliGpu !== null) {
        train.resize(milliGpu);
      }
      train.update(change);
      setProblem(null);
      await commands.execute(CommandIDs.showPanel);
      train.goTo('submit');
    } catch (error) {
      setProblem(told(error));
    }
  };
  const values = Object.entries(best.values)
    .map(([name, value]) => `${name} ${valueText(value)}`)
    .join(' · ');
  const away = words.outOfReach(model.connection) ?? notMine;
  return (
    <Callout tone="good">
      <span className="gc-Row gc-Sweep-best">
        <span>
          <b>{msg.best(sweep, best)}</b> {msg.atStep(best)} ·{' '}
          <code>{values}</code>
        </span>
        <span className="gc-Row gc-Right">
          <ActionButton
            isPrimary
            hindrance={away}
            onClick={() => void fill({ priority: 'normal' }, count * 1000)}
          >
            {msg.runWith(count)}
          </ActionButton>
          <ActionButton
            hindrance={away}
            onClick={() =>
              void fill(
                { isScheduled: true, cron: NIGHTLY, timeZone: ownZone() },
                null
              )
            }
          >
            {trans.__('Retrain it nightly…')}
          </ActionButton>
        </span>
      </span>
      {problem === null ? null : (
        <p className="gc-Error" role="alert">
          {problem}
        </p>
      )}
    </Callout>
  );
}

/** Why a teammate's trial cannot be run again: its files may be theirs alone. */
function useHindrance(sweep: ISweep, job: string | null): string | null {
  const { model, trans } = usePanel();
  const isMine = sweep.owner === model.whoami?.name;
  const [found, setFound] = React.useState<string | null>(
    trans.__('It is asked whether you may run it.')
  );
  React.useEffect(() => {
    if (isMine || job === null) {
      return;
    }
    let isCurrent = true;
    model.api.job(job).then(
      ({ again_hindrance: why }) => {
        if (isCurrent) {
          setFound(why ?? null);
        }
      },
      (error: unknown) => {
        if (isCurrent) {
          setFound(told(error));
        }
      }
    );
    return () => {
      isCurrent = false;
    };
  }, [model, isMine, job]);
  return isMine ? null : found;
}

/** The trial's job as one that stands for itself: an ordinary training, from the beginning. */
function asItsOwn(job: IJob): IJob {
  return job.request
    ? { ...job, request: { ...job.request, kind: 'training', labels: {} } }
    : job;
}
