/** One request after the other by a press of a button, and why the last of them came to nothing. */
import * as React from 'react';

import { h } from '../components/h';
import { told } from '../server/api';

export interface IAttempt {
  isBusy: boolean;
  /** Beside the button. */
  problem: React.JSX.Element | null;
  /** While one is under way no other begins. */
  attempt: (act: () => Promise<unknown>) => Promise<void>;
  /** What came of the last one is about something else now. */
  forget: () => void;
}

export function useAttempt(): IAttempt {
  const [isBusy, setBusy] = React.useState(false);
  const [refused, setRefused] = React.useState<string | null>(null);
  const attempt = async (act: () => Promise<unknown>) => {
    if (isBusy) {
      return;
    }
    setBusy(true);
    setRefused(null);
    try {
      await act();
    } catch (error) {
      setRefused(told(error));
    } finally {
      setBusy(false);
    }
  };
  const forget = React.useCallback(() => {
    setRefused(null);
  }, []);
  const problem = refused ? (
    <p className="gc-tone-error" role="alert">
      {refused}
    </p>
  ) : null;
  return { isBusy, problem, attempt, forget };
}
