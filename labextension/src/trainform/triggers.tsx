/** *Besides, when* of *Train*: what starts a schedule beside the calendar, or instead of it. */
import { PageConfig } from '@jupyterlab/coreutils';
import * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import {
  goAlong,
  ITriggerDraft,
  keepTriggers,
  mistakeOf,
  On,
  triggersOf
} from '../submission/triggers';
import { DraftField, SelectField } from './fields';
import { trainMessages } from './messages';

const HIGHEST = 'highest';
const LOWEST = 'lowest';

export function Triggers(): React.JSX.Element {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const draft = triggersOf(train);
  return (
    <>
      <Typed
        field="data"
        label={trans.__('Also if these data change')}
        example="data/"
      />
      {goAlong(draft, train.files, PageConfig.getOption('serverRoot')) ? (
        <p className="gc-Warn gc-Hint">{msg.dataGoAlong()}</p>
      ) : null}
      <div className="gc-Pair">
        <Typed
          field="after"
          label={trans.__('Also after a job of yours')}
          example="clean"
        />
        <SelectField
          id="gc-trigger-on"
          label={trans.__('that')}
          value={draft.on}
          options={[
            { value: 'ok', label: trans.__('finished') },
            { value: 'failed', label: trans.__('failed') },
            { value: 'any', label: trans.__('ended, however') }
          ]}
          onChange={value => {
            keepTriggers(train, { on: value as On });
          }}
        />
      </div>
      <div className="gc-Pair">
        <Typed
          field="metric"
          label={trans.__('Also if this metric')}
          example="accuracy"
        />
        <Typed field="below" label={trans.__('falls below')} example="97.5" />
      </div>
      <p className="gc-Muted gc-Hint">{msg.ofTriggers(draft)}</p>
      <div className="gc-Pair">
        <Typed
          field="promote"
          label={trans.__('Promote the best by')}
          example="accuracy"
        />
        <SelectField
          id="gc-promote-best"
          label={trans.__('Best is')}
          value={draft.isHighest ? HIGHEST : LOWEST}
          options={[
            { value: HIGHEST, label: trans.__('highest') },
            { value: LOWEST, label: trans.__('lowest') }
          ]}
          onChange={value => {
            keepTriggers(train, { isHighest: value === HIGHEST });
          }}
        />
      </div>
      {draft.promote.trim() ? (
        <p className="gc-Muted gc-Hint">{msg.ofPromotion()}</p>
      ) : null}
    </>
  );
}

function Typed(props: {
  field: Exclude<keyof ITriggerDraft, 'on' | 'isHighest'>;
  label: string;
  example: string;
}): React.JSX.Element {
  const { train } = usePanel();
  const msg = useWords(trainMessages);
  const { field } = props;
  const draft = triggersOf(train);
  const wrong = mistakeOf(draft);
  return (
    <DraftField
      {...props}
      id={`gc-trigger-${field}`}
      value={draft[field]}
      mistake={wrong === field ? msg.wrongTrigger(wrong, draft) : null}
      onChange={value => {
        keepTriggers(train, { [field]: value });
      }}
    />
  );
}
