import type * as React from 'react';

import { Fragment, h } from '../components/h';
import { Callout } from '../components/parts';

/** What went wrong, if anything, and what likely will: a callout for each. */
export function Warnings(props: {
  error?: string | null | undefined;
  texts: readonly string[];
}): React.JSX.Element {
  return (
    <>
      {props.error ? <Callout tone="error">{props.error}</Callout> : null}
      {props.texts.map(text => (
        <Callout key={text} tone="borrow">
          {text}
        </Callout>
      ))}
    </>
  );
}
