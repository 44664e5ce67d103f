/** What *My GPU* says of a notebook whose GPU memory is on the host. */
import type * as React from 'react';

import { useNow, usePanel, useWords } from '../components/context';
import { h } from '../components/h';
import type { ILease } from '../server/tokens';
import { parkedMessages } from './parkedmessages';

export function Parked({ lease }: { lease: ILease }): React.JSX.Element {
  const { model } = usePanel();
  const msg = useWords(parkedMessages);
  const now = useNow(model);
  const waits = lease.state === 'waiting';
  return (
    <div className="gc-Tile" role="status">
      <div className="gc-Row">
        <span className="gc-Big">
          {waits ? msg.waits(lease.milli_gpu) : msg.title(lease.milli_gpu)}
        </span>
      </div>
      {waits ? (
        <p>
          {msg.inLine(
            lease.position ?? 1,
            Math.max(0, now - (lease.requested_ms ?? now))
          )}{' '}
          {lease.forecast?.span ? msg.likely(lease.forecast.span) : null}
        </p>
      ) : (
        <p>{msg.runToHaveItBack()}</p>
      )}
      {waits && lease.reason ? (
        <p className="gc-Muted">{lease.reason.text}</p>
      ) : null}
      {waits ? <p className="gc-Muted">{msg.interrupt()}</p> : null}
      <p className="gc-Muted">{msg.since(lease.parked_ms ?? now)}</p>
      {model.connection === 'ok' ? null : (
        <p className="gc-Warn">{msg.stale()}</p>
      )}
    </div>
  );
}
