/** The whole sidebar: where the page stands with the server, then the four sections. */
import type * as React from 'react';

import { Fragment, h } from '../components/h';

import { duration } from '../text/format';
import { Tip } from '../greeting/tip';
import { CommandIDs } from '../lab/ids';
import { useNow, usePanel, useTopics } from '../components/context';
import { Jobs } from './jobs';
import { HubLink, MyGpu } from './mygpu';
import { MyTeam } from './myteam';
import { Callout, LinkButton } from '../components/parts';
import { Train } from './train';

export function Panel(): React.JSX.Element {
  const { model } = usePanel();
  useTopics(model, ['status']);
  const isStale = model.connection !== 'ok';
  const hasScheduler = model.connection !== 'none';
  return (
    <div className="gc-Panel-content">
      <Standing />
      <Tip />
      <MyGpu />
      {hasScheduler ? (
        <>
          <div className={isStale ? 'gc-mod-stale' : ''}>
            <MyTeam />
            <Jobs />
          </div>
          <Train />
        </>
      ) : null}
    </div>
  );
}

/** Nothing while all is well; else one sentence, the age of what is shown, and what to do. */
export function Standing(): React.JSX.Element | null {
  const { model, msg, commands } = usePanel();
  useNow(model);
  const { connection, trouble, dataAgeMs: age } = model;
  if (connection === 'ok' || connection === 'connecting') {
    return null;
  }
  if (connection === 'none') {
    return <Callout tone="info">{trouble}</Callout>;
  }
  // A server that was announced to stop, and did, is not coming back by itself.
  const idleMs = model.returnedAfterMs;
  const { stopped, gone } = model;
  const isGone = (gone ?? stopped ?? idleMs) !== null;
  return (
    <Callout tone={age === null || isGone ? 'info' : 'error'}>
      {gone !== null
        ? [`${msg.stoppedTitle(gone)}.`, ...msg.ofStop(gone, 0)].join(' ')
        : stopped !== null
          ? msg.stoppedBy(stopped)
          : idleMs !== null
            ? msg.returnedIdle(duration(idleMs), model.lease?.idle?.reclaimed)
            : ((connection === 'lost' ? null : trouble) ??
              msg.outOfReach(connection))}{' '}
      {age === null ? null : msg.dataAge(age)}{' '}
      {gone?.startUrl != null ? (
        <LinkButton
          onClick={() => {
            void commands.execute(CommandIDs.startAgain);
          }}
        >
          {msg.startAgain()}
        </LinkButton>
      ) : isGone ? (
        <HubLink />
      ) : (
        <LinkButton
          onClick={() => {
            void commands.execute(CommandIDs.reconnect);
          }}
        >
          {msg.retry()}
        </LinkButton>
      )}
    </Callout>
  );
}
