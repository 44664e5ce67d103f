/** How components reach the models, and when they draw anew. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import type { Seen } from '../model/greeted';
import type { Messages } from '../text/messages';
import type { Model, Topic } from '../model/model';
import type { TrainModel } from '../submission/train';

export interface IPanelContext {
  model: Model;
  train: TrainModel;
  msg: Messages;
  commands: CommandRegistry;
  /** What was closed for good. */
  seen: Seen;
  /** How many finished jobs the list shows at first. */
  finishedShown: number;
  /** Whether what is drawn with it can be seen; unsaid where it always is. */
  isShown?: () => boolean;
}

export const PanelContext = React.createContext<IPanelContext | null>(null);

export function usePanel(): IPanelContext & { trans: TranslationBundle } {
  const context = React.useContext(PanelContext);
  if (context === null) {
    throw new Error('A component of the panel is drawn outside of it.');
  }
  return { ...context, trans: context.msg.trans };
}

/** The sentences of a part together with those of all parts: they come with its code. */
export function useWords<W>(words: (msg: Messages) => W): W {
  const { msg } = usePanel();
  return React.useMemo(() => words(msg), [words, msg]);
}

/** Draw anew whenever the signal says so. */
export function useSignal<S, A>(
  signal: ISignal<S, A>,
  matters: (args: A) => boolean = always
): void {
  const [, redraw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const slot = (_: S, args: A) => {
      if (matters(args)) {
        redraw();
      }
    };
    signal.connect(slot);
    // What happened between the drawing and this moment was told to nobody.
    redraw();
    return () => {
      signal.disconnect(slot);
    };
  }, [signal, matters]);
}

function always(): boolean {
  return true;
}

/** Draw anew when one of these parts of the model changes. */
export function useTopics(model: Model, topics: readonly Topic[]): void {
  const key = topics.join();
  const matters = React.useCallback(
    (topic: Topic) => key.includes(topic),
    [key]
  );
  useSignal(model.changed, matters);
}

/** Draw anew every second, while anybody can see it; the answer is the server's time. */
export function useNow(model: Model): number {
  const [, redraw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const timer = window.setInterval(() => {
      if (!document.hidden) {
        redraw();
      }
    }, 1000);
    return () => {
      window.clearInterval(timer);
    };
  }, []);
  return model.clock.now();
}
