/** What pages ask of the server while they are looked at. */
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ApiError, told } from '../server/api';
import { usePanel } from './context';

const REFRESH_MS = 2000;

/**
 * Look again and again while anybody can see it and the server is there: whether one that was stopped is
 * back is asked by the page's one connection, ever more seldom.
 */
export function useEvery(look: () => unknown, everyMs: number): void {
  const { model, isShown } = usePanel();
  React.useEffect(() => {
    const timer = window.setInterval(() => {
      const isSeen = !document.hidden && isShown?.() !== false;
      if (isSeen && model.connection !== 'lost') {
        look();
      }
    }, everyMs);
    return () => {
      window.clearInterval(timer);
    };
  }, [look, everyMs, model, isShown]);
}

/** As JupyterHub answers in place of a server that was stopped, with addresses in place of a reason. */
const STOPPED = 424;

/** What a page says of a call that failed, until its one connection has seen why. */
export function problemOf(error: unknown, trans: TranslationBundle): string {
  return error instanceof ApiError && error.status === STOPPED
    ? `${trans.__('Your notebook server does not run')}.`
    : told(error);
}

/** What a call answers, asked again and again while anybody looks. */
export function useLooked<T>(
  call: () => Promise<T>,
  everyMs = REFRESH_MS
): {
  found: T | null;
  problem: string | null;
  look: () => Promise<void>;
} {
  const { trans } = usePanel();
  const [found, setFound] = React.useState<T | null>(null);
  const [problem, setProblem] = React.useState<string | null>(null);
  const look = React.useCallback(async () => {
    try {
      setFound(await call());
      setProblem(null);
    } catch (error) {
      setProblem(problemOf(error, trans));
    }
  }, [call, trans]);
  React.useEffect(() => {
    void look();
  }, [look]);
  // Apart: asked for more or less often, it is not asked for once more at once.
  useEvery(look, everyMs);
  return { found, problem, look };
}
