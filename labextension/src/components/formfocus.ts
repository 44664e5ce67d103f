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
const ACTS = ['pointerdown', 'wheel', 'keydown', 'touchmove'];

/** Sends the focus where it was asked to, and keeps a button in sight that lines push down. */
export function useFocus(train: TrainModel): React.RefObject<HTMLFormElement> {
  const node = React.useRef<HTMLFormElement>(null);
  const letGo = React.useRef<() => void>();
  React.useEffect(() => {
    const { wanted } = train;
    const field =
      wanted && node.current?.querySelector<HTMLElement>(PLACES[wanted]);
    if (field) {
      train.wanted = null;
      field.focus();
      // What was opened lies below the form: its first field alone would be in sight.
      const opened = field.closest('.gc-Advice');
      letGo.current?.();
      letGo.current = opened ? keepInSight(opened) : undefined;
    }
    const { activeElement } = document;
    if (activeElement?.id === SUBMIT) {
      activeElement.scrollIntoView({ block: 'nearest' });
    }
  });
  React.useEffect(() => () => letGo.current?.(), []);
  return node;
}

/** Until somebody acts: what the server answers later adds lines anywhere above it. */
function keepInSight(opened: Element): () => void {
  const show = () => {
    opened.scrollIntoView({ block: 'nearest' });
  };
  const observer = new MutationObserver(show);
  const letGo = () => {
    observer.disconnect();
    ACTS.forEach(act => {
      document.removeEventListener(act, letGo, true);
    });
  };
  ACTS.forEach(act => {
    document.addEventListener(act, letGo, true);
  });
  observer.observe(opened.closest('.gc-Panel-content') ?? document.body, {
    childList: true,
    characterData: true,
    subtree: true
  });
  show();
  return letGo;
}
