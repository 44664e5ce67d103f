/** What pages ask of the server while they are looked at. */
import * as React from 'react';

import { told } from '../server/api';
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

/** What a call answers, asked again and again while anybody looks. */
export function useLooked<T>(
  call: () => Promise<T>,
  everyMs = REFRESH_MS
): {
  found: T | null;
  problem: string | null;
  look: () => Promise<void>;
} {
  const [found, setFound] = React.useState<T | null>(null);
  const [problem, setProblem] = React.useState<string | null>(null);
  const look = React.useCallback(async () => {
    try {
      setFound(await call());
      setProblem(null);
    } catch (error) {
      setProblem(told(error));
    }
  }, [call]);
  React.useEffect(() => {
    void look();
  }, [look]);
  // Apart: asked for more or less often, it is not asked for once more at once.
  useEvery(look, everyMs);
  return { found, problem, look };
}
