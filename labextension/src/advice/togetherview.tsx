/** Of several waiting jobs: what each would take for itself, and what is best for all of them. */
import * as React from 'react';

import { usePanel, useTopics } from '../components/context';
import { Fragment, h } from '../components/h';
import { ActionButton, LinkButton } from '../components/parts';
import { CommandIDs } from '../lab/ids';
import { isWaiting } from '../model/jobs';
import type { ITogether, ITogetherPool } from '../server/plans';
import { useAttempt } from './attempt';
import { leftOut, newSizes, poolText } from './together';

const SEVERAL = 2;

/** Nothing where fewer than two of the reader's jobs wait. */
export function Together(): React.JSX.Element | null {
  const { model, trans } = usePanel();
  useTopics(model, ['jobs']);
  const [found, setFound] = React.useState<ITogether | null>(null);
  const { problem, attempt, forget } = useAttempt();
  const waiting = (model.jobs ?? []).filter(
    job => isWaiting(job) && job.owner === model.whoami?.name
  );
  // What was said of another line is no answer.
  const line = waiting
    .map(job => `${job.id} ${job.milli_gpu}`)
    .sort()
    .join();
  React.useEffect(() => {
    setFound(null);
    forget();
  }, [line, forget]);
  if (waiting.length < SEVERAL) {
    return null;
  }
  const look = () =>
    attempt(async () => {
      const path = ['api', 'advise', 'together'];
      setFound(await model.api.request<ITogether>('GET', path));
    });
  const heading = trans.__('Your waiting jobs together');
  return (
    <section className="gc-Together" aria-label={heading}>
      <div className="gc-Row">
        <strong>{heading}</strong>
        <span className="gc-Right">
          <LinkButton
            onClick={() => {
              void look();
            }}
          >
            {trans.__('Compare')}
          </LinkButton>
        </span>
      </div>
      {problem}
      {found ? <Found found={found} waiting={waiting.length} /> : null}
    </section>
  );
}

function Found(props: {
  found: ITogether;
  waiting: number;
}): React.JSX.Element {
  const { msg, trans } = usePanel();
  const { found, waiting } = props;
  return (
    <div role="status">
      {found.pools.length === 0 ? (
        <p>
          {trans.__(
            'Two or more that wait in one pool, took a plan and never ran can be compared; %1 of yours wait.',
            waiting
          )}
        </p>
      ) : null}
      {found.pools.map(pool => (
        <Fragment key={pool.pool}>
          <p>{poolText(pool, msg)}</p>
          <Pool pool={pool} />
        </Fragment>
      ))}
      {leftOut(found, msg).map(text => (
        <p className="gc-Muted" key={text}>
          {text}
        </p>
      ))}
      {found.pools.length > 0 ? (
        <p className="gc-Muted">
          {trans.__(
            'By the formulas of their plans, if they get the GPUs one after the other.'
          )}
        </p>
      ) : null}
    </div>
  );
}

function Pool({ pool }: { pool: ITogetherPool }): React.JSX.Element {
  const { commands, model, trans } = usePanel();
  const { problem, attempt } = useAttempt();
  const sizes = newSizes(pool, model.jobs ?? []);
  const give = () =>
    attempt(async () => {
      for (const { id, milliGpu } of sizes) {
        model.take(await model.api.resize(id, milliGpu));
      }
    });
  return (
    <>
      <table className="gc-Runs">
        <thead>
          <tr>
            <th scope="col">{trans.__('Job')}</th>
            <th scope="col">{trans.__('asked')}</th>
            <th scope="col">{trans.__('alone')}</th>
            <th scope="col">{trans.__('together')}</th>
          </tr>
        </thead>
        <tbody>
          {pool.jobs.map(one => (
            <tr key={one.id}>
              <td>
                <LinkButton
                  onClick={() => {
                    void commands.execute(CommandIDs.openJob, { job: one.id });
                  }}
                >
                  {one.name}
                </LinkButton>
              </td>
              <td>{one.gpus_asked}</td>
              <td>{one.gpus_alone}</td>
              <td>
                {one.gpus === one.gpus_asked ? one.gpus : <b>{one.gpus}</b>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {sizes.length > 0 ? (
        <ActionButton
          onClick={() => {
            void give();
          }}
        >
          {trans.__('Give them these sizes')}
        </ActionButton>
      ) : null}
      {problem}
    </>
  );
}
