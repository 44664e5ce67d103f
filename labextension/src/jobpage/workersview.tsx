/** Where workers are; how many over time, under the curve of an elastic job; what may go wrong with several. */
import type * as React from 'react';

import { Fragment, h } from '../components/h';

import { useNow, usePanel, useWords } from '../components/context';
import { Callout } from '../components/parts';
import { currentAttempt, isFinal, workersOf } from '../model/jobs';
import { IJob } from '../server/types';
import { jobMessages } from './messages';
import { HEIGHT, WIDTH, workersView } from './workers';

/** The nodes of a job's workers, and how tightly its GPUs lie together. */
export function Place({ job }: { job: IJob }): React.JSX.Element {
  const { trans } = usePanel();
  const msg = useWords(jobMessages);
  // Where it ran before is no place of one that waits.
  const last = isFinal(job) ? job.attempts.at(-1) : currentAttempt(job);
  const nodes = [...new Set(last?.nodes ?? [])];
  const now = workersOf(job, currentAttempt(job));
  const { min_workers: low, max_workers: high } = job.request ?? {};
  const words =
    low != null && high != null && low < high
      ? trans.__('%1 of %2 to %3 workers', now, low, high)
      : trans.__('%1 workers', now);
  const workers = job.workers > 1 || now > 1 || high ? `${words}, ` : '';
  if (nodes.length === 0) {
    const pools = job.pool ? [job.pool] : job.pools;
    const name = pools.join(', ');
    const where =
      pools.length > 1 ? trans.__('pools %1', name) : trans.__('pool %1', name);
    return <>{`${workers}${where}`}</>;
  }
  return (
    <>
      {workers}
      {nodes.length === 1
        ? trans.__('%1, one node', nodes[0])
        : trans.__('%1 nodes: %2', nodes.length, nodes.join(', '))}
      {last?.tightness ? (
        <span className="gc-Tightness">{msg.tightness(last.tightness)}</span>
      ) : null}
      {(last?.slow ?? []).map(place => (
        <span className="gc-Tightness" key={place.nodes.join()}>
          {msg.slow(place)}
        </span>
      ))}
    </>
  );
}

export function WorkersView({ job }: { job: IJob }): React.JSX.Element | null {
  const { model, trans } = usePanel();
  const msg = useWords(jobMessages);
  useNow(model);
  const view = workersView(job, model.shownMs, msg);
  if (view === null) {
    return null;
  }
  const label = trans.__(
    'Workers over time, %1 at the most so far, from %2 to %3',
    view.most,
    view.from,
    view.to
  );
  return (
    <div className="gc-Box gc-Use">
      <div className="gc-Row">
        <span className="gc-Muted">{trans.__('Workers')}</span>
        <strong className="gc-Right">
          {trans.__('%1 at the most so far', view.most)}
        </strong>
      </div>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        <path className="gc-Use-used" d={view.path} />
      </svg>
      <div className="gc-Row gc-Muted">
        <span>{view.from}</span>
        <span className="gc-Right">{view.to}</span>
      </div>
      {view.changes.map(change => (
        <p key={change.key} className="gc-Receipt">
          {change.text}
        </p>
      ))}
    </div>
  );
}

/** What went wrong, if anything, and what likely will: a callout for each. */
export function Warnings(props: {
  error?: string | null | undefined;
  texts: readonly string[];
}): React.JSX.Element {
  return (
    <>
      {props.error ? <Callout tone="error">{props.error}</Callout> : null}
      {props.texts.map(text => (
        <Callout key={text} tone="borrow">
          {text}
        </Callout>
      ))}
    </>
  );
}
