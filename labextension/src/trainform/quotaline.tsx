/** What the quota says to the form: its verdict first, and what becomes of the work at a stop. */
import type * as React from 'react';

import { usePanel } from '../components/context';
import { Fragment, h } from '../components/h';
import { Callout } from '../components/parts';
import type { TrainModel } from '../submission/train';
import { refusedField } from '../submission/refusals';

const TONES: Record<string, 'borrow' | 'guaranteed'> = {
  'over-quota': 'borrow',
  guaranteed: 'guaranteed'
};

export function QuotaLine(props: {
  train: TrainModel;
}): React.JSX.Element | null {
  const { model } = usePanel();
  const { quote, problem, isAsking } = props.train;
  const said = problem ?? quote?.text;
  // That the scheduler is away is said above, once.
  if (said === undefined || model.connection !== 'ok') {
    return null;
  }
  // At its field, where that is in sight.
  if (props.train.isExpanded && refusedField(problem, props.train.form)) {
    return null;
  }
  const [lead, rest] = problem === null ? leadOf(said) : ['', said];
  const tone = problem === null ? TONES[quote?.hold_class ?? ''] : 'error';
  const stop =
    problem === null
      ? [quote?.stop_text, quote?.drill_text].filter(Boolean).join(' ')
      : '';
  // Both keep their height while another is asked for: *Submit* stays under the pointer.
  const stale = isAsking ? 'gc-mod-stale' : '';
  return (
    <>
      {stop ? (
        <p className={`gc-Muted gc-Hint ${stale}`} aria-busy={isAsking}>
          {stop}
        </p>
      ) : null}
      <Callout tone={tone ?? 'info'} id="gc-quote">
        <span className={stale} aria-busy={isAsking}>
          {lead ? <b>{lead} </b> : null}
          {rest}
        </span>
      </Callout>
    </>
  );
}

/** A short first sentence ("Borrowed.") is the verdict and stands out. */
export function leadOf(text: string): [string, string] {
  const match = /^(.{1,24}?\.)\s+(.+)$/s.exec(text);
  return match ? [match[1] ?? '', match[2] ?? ''] : ['', text];
}
