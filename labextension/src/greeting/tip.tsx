/** The tip above the panel; closed, it does not come back. */
import type * as React from 'react';

import { usePanel, useSignal, useTopics } from '../components/context';
import { h } from '../components/h';
import { ActionButton, LinkButton } from '../components/parts';
import { CommandIDs } from '../lab/ids';
import { tipNow } from './tips';

export function Tip(): React.JSX.Element | null {
  const { model, train, seen, msg, commands, trans } = usePanel();
  useTopics(model, ['status', 'jobs', 'lease']);
  useSignal(seen.changed);
  useSignal(train.changed);
  const tip = seen.isKnown
    ? tipNow(model, id => seen.has(id), msg, train.form.source !== null)
    : null;
  return tip === null ? null : (
    <section className="gc-Tip" aria-label={trans.__('Tip')}>
      <p>
        <b>{tip.title}</b> {tip.text}
      </p>
      <div className="gc-Row gc-Buttons">
        {tip.offersExample ? (
          <ActionButton
            isPrimary
            onClick={() => {
              void commands.execute(CommandIDs.examples);
            }}
          >
            {trans.__('Open the example')}
          </ActionButton>
        ) : null}
        <LinkButton
          onClick={() => {
            seen.add(tip.id);
          }}
        >
          {trans.__('Don’t show again')}
        </LinkButton>
      </div>
    </section>
  );
}
