/** How many workers, and what joins them: proposed with its reason, changed by one click. */
import type * as React from 'react';

import { usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { AUTO, canBeLaunched, mostWorkers } from '../submission/request';
import { NumberField, SelectField } from './fields';
import { trainMessages } from './messages';

export function Workers(): React.JSX.Element {
  const { train, trans } = usePanel();
  const msg = useWords(trainMessages);
  const { form, proposal } = train;
  const areMany = form.workers > 1;
  return (
    <>
      <div className="gc-Pair">
        <NumberField field="workers" />
        {areMany ? <NumberField field="minWorkers" /> : null}
        <NumberField field="maxWorkers" />
      </div>
      {form.minWorkers < mostWorkers(form) ? (
        <p className="gc-Muted gc-Hint">
          {msg.elastic(form.minWorkers, mostWorkers(form))}
        </p>
      ) : null}
      {canBeLaunched(form) ? (
        <SelectField
          id="gc-launcher"
          label={trans.__('Launcher')}
          value={form.launcher}
          options={msg.launcherChoices(
            form,
            proposal,
            train.environments?.launchers ?? []
          )}
          onChange={launcher => {
            train.update({ launcher });
          }}
        />
      ) : null}
      {areMany && form.launcher === AUTO && proposal ? (
        <p className="gc-Muted gc-Hint">{msg.proposedBecause(proposal)}</p>
      ) : null}
    </>
  );
}
