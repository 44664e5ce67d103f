/** Where the focus goes in the form: to what was opened, refused, or asked for from elsewhere. */
import * as React from 'react';

import type { TrainModel } from '../submission/train';

/** The first field. */
export const FIRST = 'gc-what';
export const SUBMIT = 'gc-submit';
const PLACES = {
  first: `#${FIRST}`,
  submit: `#${SUBMIT}`,
  workers: '#gc-workers',
  more: '.gc-More :is(input,select)',
  advice: '.gc-Advice :is(input,select)'
};

/** Sends the focus where it was asked to, and keeps a button in sight that lines push down. */
export function useFocus(train: TrainModel): React.RefObject<HTMLFormElement> {
  const node = React.useRef<HTMLFormElement>(null);
  React.useEffect(() => {
    const { wanted } = train;
    const field =
      wanted && node.current?.querySelector<HTMLElement>(PLACES[wanted]);
    if (field) {
      train.wanted = null;
      field.focus();
      // What was opened lies below the form: its first field alone would be in sight.
      field.closest('.gc-Advice')?.scrollIntoView({ block: 'nearest' });
    }
    const { activeElement } = document;
    if (activeElement?.id === SUBMIT) {
      activeElement.scrollIntoView({ block: 'nearest' });
    }
  });
  return node;
}
