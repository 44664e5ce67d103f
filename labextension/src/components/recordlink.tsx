/** To the hub's page of how right ranges were; nothing where there is none. */
import type * as React from 'react';

import { h } from './h';

import { usePanel } from './context';

export function RecordLink(props: { url?: string }): React.JSX.Element | null {
  const { trans } = usePanel();
  const { url } = props;
  return url ? (
    <a className="gc-Link" href={url} target="_blank" rel="noreferrer">
      {trans.__('How right are we?')}
    </a>
  ) : null;
}
