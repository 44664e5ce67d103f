/** What was said of a job before it was submitted, beside what came. */
import type * as React from 'react';

import { h } from '../components/h';

import { useNow, usePanel } from '../components/context';
import { anewText, planRows } from './plan';
import type { IPlanRecord } from '../server/plans';
import { moment } from '../text/moment';
import { RecordLink } from '../components/recordlink';

export function PlanView(props: {
  plan: IPlanRecord | undefined;
}): React.JSX.Element | null {
  const { model, msg, trans } = usePanel();
  const nowMs = useNow(model);
  const { plan } = props;
  if (plan === undefined || plan.lines.length === 0) {
    return null;
  }
  const heading = trans.__('Plan: said and came');
  const said =
    plan.made_ms == null
      ? plan.text
      : trans.__('%1, said %2', plan.text, moment(plan.made_ms, nowMs));
  return (
    <section className="gc-PlanRecord" aria-label={heading}>
      <h2>{heading}</h2>
      <p className="gc-Muted">
        {said}
        {plan.record_url ? ' · ' : null}
        <RecordLink url={plan.record_url} />
      </p>
      <table className="gc-Runs">
        <thead>
          <tr>
            <th scope="col">{trans.__('What')}</th>
            <th scope="col">{trans.__('Said')}</th>
            <th scope="col">
              {plan.is_over ? trans.__('Came') : trans.__('So far')}
            </th>
            <th scope="col">{trans.__('In the range')}</th>
          </tr>
        </thead>
        <tbody>
          {planRows(plan, msg, nowMs).map(line => (
            <tr key={line.what}>
              <th scope="row">{line.what}</th>
              <td>{line.said}</td>
              <td>{line.came}</td>
              <td>
                {line.right == null
                  ? '–'
                  : line.right
                    ? trans.__('yes')
                    : trans.__('no')}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {plan.anew ? <p>{anewText(plan.anew, msg)}</p> : null}
      {plan.notes.map(note => (
        <p className="gc-Muted" key={note}>
          {note}
        </p>
      ))}
    </section>
  );
}
