/** Workers over time, under the curve of an elastic job; what likely goes wrong with several. */
import type * as React from 'react';

import { Fragment, h } from '../components/h';

import { useNow, usePanel, useWords } from '../components/context';
import { Callout } from '../components/parts';
import { IJob } from '../server/types';
import { jobMessages } from './messages';
import { HEIGHT, WIDTH, workersView } from './workers';

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
