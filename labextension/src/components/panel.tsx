/** The whole sidebar: where the page stands with the server, then the four sections. */
import type * as React from 'react';

import { Fragment, h } from './h';

import { duration } from '../format';
import { CommandIDs } from '../ids';
import { useNow, usePanel, useTopics } from './context';
import { Jobs } from './jobs';
import { HubLink, MyGpu } from './mygpu';
import { MyTeam } from './myteam';
import { Callout, LinkButton } from './parts';
import { Train } from './train';

export function Panel(): React.JSX.Element {
  const { model } = usePanel();
  useTopics(model, ['status']);
  const hasScheduler = model.connection !== 'none';
  return (
    <div className="gc-Panel-content">
      <Standing />
      <MyGpu />
      {hasScheduler ? (
        <>
          <MyTeam />
          <Jobs />
          <Train />
        </>
      ) : null}
    </div>
  );
}

/** Nothing while all is well; else one sentence, the age of what is shown, and *Retry*. */
export function Standing(): React.JSX.Element | null {
  const { model, msg } = usePanel();
  switch (model.connection) {
    case 'ok':
    case 'connecting':
      return null;
    case 'none':
      return (
        <Callout tone="info">{model.trouble ?? msg.noScheduler()}</Callout>
      );
    case 'lost':
      return <Lost />;
    case 'unreachable':
      return <Trouble text={model.trouble ?? msg.schedulerUnreachable()} />;
  }
}

/** A server that was announced to stop, and did, is not coming back by itself. */
function Lost(): React.JSX.Element {
  const { model, msg } = usePanel();
  useNow(model);
  const idleMs = model.returnedAfterMs;
  return idleMs === null ? (
    <Trouble text={msg.connectionLost()} />
  ) : (
    <Callout tone="info">
      {msg.returnedIdle(duration(idleMs))} <HubLink />
    </Callout>
  );
}

function Trouble({ text }: { text: string }): React.JSX.Element {
  const { model, msg, commands } = usePanel();
  useNow(model);
  const age = model.dataAgeMs;
  return (
    <Callout tone={age === null ? 'info' : 'error'}>
      {text} {age === null ? null : msg.dataAge(age)}{' '}
      <LinkButton
        onClick={() => {
          void commands.execute(CommandIDs.reconnect);
        }}
      >
        {msg.retry()}
      </LinkButton>
    </Callout>
  );
}
