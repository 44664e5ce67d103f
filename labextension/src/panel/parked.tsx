/** What *My GPU* says of a notebook whose GPU memory is on the host, or could be. */
import * as React from 'react';

import { useNow, usePanel, useWords } from '../components/context';
import { Fragment, h } from '../components/h';
import { ActionButton } from '../components/parts';
import type { ILease } from '../server/types';
import { parkedMessages } from './parkedmessages';

/** Its user may give the GPU away at once; nothing is lost by it, so nothing is asked. */
function Park({ lease }: { lease: ILease }): React.JSX.Element {
  const { model } = usePanel();
  const msg = useWords(parkedMessages);
  const [refused, setRefused] = React.useState<string | null>(null);
  if (lease.state === 'parking') {
    return (
      <p className="gc-Muted" role="status">
        {msg.isBeingParked()}
      </p>
    );
  }
  const park = () => {
    setRefused(null);
    model.api
      .request<ILease>('POST', ['api', 'leases', lease.id, 'park'], {})
      .then(
        told => {
          model.setLease(told);
        },
        (error: unknown) => {
          setRefused(error instanceof Error ? error.message : String(error));
        }
      );
  };
  const because = lease.idle?.not_parked;
  return (
    <>
      <div className="gc-Row gc-Buttons">
        <ActionButton onClick={park} describedBy="gc-park">
          {msg.park()}
        </ActionButton>
      </div>
      <p className="gc-Muted" id="gc-park">
        {msg.whatParkDoes()}
      </p>
      {(refused ?? because) ? (
        <p className="gc-Warn" role="status">
          {refused ?? msg.notParked((because ?? '').replace(/\.$/, ''))}
        </p>
      ) : null}
    </>
  );
}

export function Parked({ lease }: { lease: ILease }): React.JSX.Element {
  return lease.parked_ms ? <OnHost lease={lease} /> : <Park lease={lease} />;
}

function OnHost({ lease }: { lease: ILease }): React.JSX.Element {
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
