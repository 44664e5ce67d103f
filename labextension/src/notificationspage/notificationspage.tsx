/** What one is told by mail and webhook, and what became of the last messages; chosen on the hub's page. */
import * as React from 'react';

import { usePanel, useTopics, useWords } from '../components/context';
import { h } from '../components/h';
import { useLooked } from '../components/polling';
import { Callout } from '../components/parts';
import { Standing } from '../panel/panel';
import { IMessage, INotifications, notificationsOf } from './notifications';
import { clock } from '../text/format';
import { toldMessages } from './messages';

const REFRESH_MS = 5000;

export function NotificationsPage(): React.JSX.Element {
  const { model, trans } = usePanel();
  const msg = useWords(toldMessages);
  useTopics(model, ['status']);
  const { found, problem } = useLooked(
    React.useCallback(() => notificationsOf(model.api), [model]),
    REFRESH_MS
  );
  return (
    <div className="gc-JobPage">
      <Standing />
      <header className="gc-Row gc-JobHeader">
        <h1>{trans.__('Notifications')}</h1>
      </header>
      {problem !== null && model.connection === 'ok' ? (
        <Callout tone="error">{problem}</Callout>
      ) : null}
      <div className={model.connection === 'ok' ? '' : 'gc-mod-stale'}>
        <p className="gc-Muted">{msg.alone()}</p>
        {found === null ? null : <Told told={found} />}
      </div>
    </div>
  );
}

function Told({ told }: { told: INotifications }): React.JSX.Element {
  const { trans } = usePanel();
  const msg = useWords(toldMessages);
  const { mail, webhook } = told;
  return (
    <React.Fragment>
      <h2>{trans.__('Mail')}</h2>
      <p>{msg.channel(mail)}</p>
      {mail.waits ? <Callout tone="info">{mail.waits}</Callout> : null}
      <h2>{trans.__('Webhook')}</h2>
      <p>{msg.channel(webhook)}</p>
      {mail.why_not && webhook.why_not ? null : told.page_url ? (
        <p>
          <a href={told.page_url} target="_blank" rel="noreferrer">
            {trans.__('Choose, or send a test')}
          </a>
        </p>
      ) : (
        <p className="gc-Muted">{msg.howToChoose()}</p>
      )}
      <h2>{trans.__('The last messages')}</h2>
      {told.newest.length === 0 ? (
        <p className="gc-Muted">{msg.none()}</p>
      ) : (
        <Newest messages={told.newest} />
      )}
    </React.Fragment>
  );
}

function Newest(props: { messages: IMessage[] }): React.JSX.Element {
  const msg = useWords(toldMessages);
  return (
    <table className="gc-Runs">
      <tbody>
        {props.messages.map(each => (
          <tr key={each.id}>
            <td className="gc-Muted">{clock(each.made_ms)}</td>
            <td>{each.channel}</td>
            <td>{each.subject}</td>
            <td>{msg.fate(each)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
