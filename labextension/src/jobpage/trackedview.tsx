/** Runs of MLflow that the job logged, with links to what they have. */
import type * as React from 'react';

import { h } from '../components/h';

import { usePanel } from '../components/context';
import type { ITracked, ITrackedRun } from '../server/tracked';

export function TrackedView(props: {
  tracked: ITracked | undefined;
}): React.JSX.Element | null {
  const { trans } = usePanel();
  const { tracked } = props;
  if (tracked === undefined) {
    return null;
  }
  if (tracked.problem !== '') {
    return <p className="gc-Muted">{tracked.problem}</p>;
  }
  if (tracked.runs.length === 0) {
    return null;
  }
  const heading = trans.__('Runs in MLflow');
  return (
    <section aria-label={heading}>
      <h2>{heading}</h2>
      <ul>
        {tracked.runs.map(run => (
          <Run key={run.run_id} run={run} />
        ))}
      </ul>
    </section>
  );
}

function Run({ run }: { run: ITrackedRun }): React.JSX.Element {
  const { trans } = usePanel();
  const metrics = trans._n('%1 metric', '%1 metrics', run.metrics);
  return (
    <li>
      <Link url={run.url}>{run.name}</Link>{' '}
      <span className="gc-Muted">
        {run.status} · <code>{run.run_id}</code>
      </span>{' '}
      {run.metrics_url ? <Link url={run.metrics_url}>{metrics}</Link> : null}{' '}
      {run.artifacts_url ? (
        <Link url={run.artifacts_url}>{trans.__('artifacts')}</Link>
      ) : null}
    </li>
  );
}

function Link(props: {
  url: string;
  children: React.ReactNode;
}): React.JSX.Element {
  return (
    <a href={props.url} target="_blank" rel="noopener noreferrer">
      {props.children}
    </a>
  );
}
