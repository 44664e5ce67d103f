/** The section *Train*: its form comes as a chunk once there is something to run. */
import type * as React from 'react';

import { CommandIDs } from '../lab/ids';
import { chunk } from '../components/chunk';
import { usePanel, useSignal } from '../components/context';
import { h } from '../components/h';
import { LinkButton, Section } from '../components/parts';

const Form = chunk(() =>
  import(/* webpackChunkName: "page-train" */ '../trainform/form').then(
    ({ TrainForm }) => TrainForm
  )
);

export function Train(): React.JSX.Element {
  const { train, trans } = usePanel();
  useSignal(train.changed);
  return (
    <Section
      id="train"
      title={trans.__('Train')}
      isWanted={train.wanted !== null}
    >
      {train.form.source === null && train.wanted === null ? (
        <Nothing />
      ) : (
        <Form />
      )}
    </Section>
  );
}

function Nothing(): React.JSX.Element {
  const { msg, commands, trans } = usePanel();
  return (
    <p className="gc-Muted">
      {msg.openFirst()}.{' '}
      <LinkButton
        onClick={() => {
          void commands.execute(CommandIDs.trainFile, { asks: true });
        }}
      >
        {trans.__('Another file…')}
      </LinkButton>
    </p>
  );
}
