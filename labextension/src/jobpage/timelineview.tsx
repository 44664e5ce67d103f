/** "What happened": waits and attempts to scale, then the receipts of the stops. */
import type * as React from 'react';

import { h } from '../components/h';

import { stepText } from '../model/jobs';
import { jobMessages } from './messages';
import { timeline } from './timeline';
import { IJob } from '../server/types';
import type { IJobUse } from '../server/jobuse';
import { UseView } from './useview';
import { useNow, usePanel, useWords } from '../components/context';
import { JobLink } from '../panel/jobs';

/** A label needs about so much of the page; a shorter one would be a letter and three dots. */
const NARROW_PERCENT = 6;

export function TimelineView(props: {
  job: IJob;
  use: IJobUse | null;
}): React.JSX.Element {
  const { job } = props;
  const { model, trans } = usePanel();
  const msg = useWords(jobMessages);
  useNow(model);
  const line = timeline(job, model.shownMs, msg);
  return (
    <div className="gc-Box">
      <h2>{trans.__('What happened')}</h2>
      <ol className="gc-Timeline">
        {line.segments.map(segment => (
          <li
            key={segment.fromMs}
            className={`gc-seg-${segment.kind}`}
            style={{ flexGrow: Math.max(0.5, segment.percent) }}
            title={segment.label}
          >
            {segment.percent < NARROW_PERCENT ? '' : segment.label}
          </li>
        ))}
      </ol>
      <div className="gc-Row gc-Muted">
        <span>{line.from}</span>
        <span className="gc-Right">{line.to}</span>
      </div>
      <UseView
        use={props.use}
        attempts={job.attempts}
        fromMs={line.fromMs}
        toMs={line.toMs}
      />
      {props.use?.borrowed_text ? (
        <p className="gc-Receipt">{props.use.borrowed_text}</p>
      ) : null}
      {job.part_of ? (
        <p className="gc-Receipt">{msg.partOf(job.part_of)}</p>
      ) : null}
      <Origin job={job} />
      {line.receipts.map(receipt => (
        <p key={receipt.key} className="gc-Receipt">
          <span className="gc-Muted">{receipt.at}</span> {receipt.text}
        </p>
      ))}
    </div>
  );
}

/** The job that this one was made from, and where it took over: its curve and log begin there. */
function Origin({ job }: { job: IJob }): React.JSX.Element | null {
  const { model, msg, trans } = usePanel();
  const { parent, resume_from: from } = job.request ?? {};
  const old = model.jobs?.find(each => each.id === (from ?? parent));
  if (!old) {
    return null;
  }
  const step = job.attempts[0]?.resumed_from_step ?? old.checkpoint?.step;
  return (
    <p className="gc-Receipt">
      {`${from ? trans.__('goes on from') : trans.__('made from')} `}
      <JobLink job={old} />
      {from && step != null
        ? ` ${trans.__('at %1', stepText(job, step, msg))}`
        : null}
    </p>
  );
}
