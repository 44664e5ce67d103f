/**
 * Every sentence of the panel as Lab starts with it: translated, and asserted literally by the UI
 * tests. Those of a page that comes when it is opened stand beside its code.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { countdown, duration, gpus, preciseClock, span } from './format';
import type { Connection } from '../server/api';
import { sliceMessages } from './slicemessages';
import { IForecast, IJob } from '../server/types';

export type Messages = ReturnType<typeof messages>;

export function messages(trans: TranslationBundle) {
  const stateWord = (state: string): string | undefined =>
    ({
      queued: trans.__('waiting'),
      nominated: trans.__('next, making room'),
      admitted: trans.__('starting'),
      starting: trans.__('starting'),
      running: trans.__('running'),
      preempting: trans.__('stopping'),
      pausing: trans.__('pausing'),
      paused: trans.__('paused'),
      cancelling: trans.__('cancelling'),
      cancelled: trans.__('cancelled'),
      succeeded: trans.__('finished'),
      failed: trans.__('failed')
    })[state];

  return {
    /** For words of a single place: labels of fields and buttons. */
    trans,

    // --- connection ---------------------------------------------------------------------------

    connecting(): string {
      return trans.__('Connecting…');
    },

    connectionLost(): string {
      return trans.__(
        'The connection to your notebook server is lost. Trying again…'
      );
    },

    schedulerUnreachable(): string {
      return trans.__(
        'The scheduler does not answer. Jobs go on; nothing can be changed now.'
      );
    },

    /** Why nothing can be changed now; null where it can. */
    outOfReach(connection: Connection): string | null {
      return connection === 'ok'
        ? null
        : connection === 'unreachable'
          ? this.schedulerUnreachable()
          : this.connectionLost();
    },

    dataAge(ms: number): string {
      return trans.__('Data from %1 ago.', duration(ms));
    },

    /** Of what there is to read, nothing came: that is not the same as nothing being there. */
    notLoaded(): string {
      return trans.__('This cannot be loaded now.');
    },

    loading(): string {
      return trans.__('Loading…');
    },

    /** Code that the server did not give: it is away, or holds another version by now. */
    partNotLoaded(): string {
      return trans.__(
        'This part could not be loaded. Where GPU Commons was updated since this page was opened, reload the page.'
      );
    },

    retry(): string {
      return trans.__('Retry');
    },

    sharedAccount(): string {
      return trans.__(
        'All users of this machine share one account: nothing isolates your files and processes from theirs.'
      );
    },

    ...sliceMessages(trans),

    // --- teams --------------------------------------------------------------------------------

    usedOfFixed(used: number, fixed: number): string {
      return trans.__('%1 of %2 fixed', gpus(used), gpus(fixed));
    },

    usedOf(used: number, guaranteed: number): string {
      return trans.__('%1 of %2', gpus(used), gpus(guaranteed));
    },

    plusBorrowed(milliGpu: number): string {
      return trans.__('+ %1 borrowed', gpus(milliGpu));
    },

    waiting(count: number): string {
      return trans._n('%1 waits', '%1 wait', count);
    },

    // --- jobs ---------------------------------------------------------------------------------

    gpuCount(milliGpu: number): string {
      if (milliGpu === 0) {
        return trans.__('CPU');
      }
      return milliGpu <= 1000
        ? trans.__('%1 GPU', gpus(milliGpu))
        : trans.__('%1 GPUs', gpus(milliGpu));
    },

    borrowed(milliGpu: number): string {
      return trans.__('%1 borrowed', gpus(milliGpu));
    },

    /** The short word for a state of jobs; none for one of a newer scheduler. */
    stateWord,

    /** The short word for a job's state. */
    state({ state, state_text: why }: IJob): string {
      // Why it stops, the scheduler says.
      return (state === 'preempting' ? why : null) ?? stateWord(state) ?? state;
    },

    /** What a job counts. */
    unit(word: string): string {
      const words: Record<string, string> = {
        epoch: trans.__('epoch'),
        sample: trans.__('sample'),
        round: trans.__('round'),
        trial: trans.__('trial'),
        percent: trans.__('percent'),
        line: trans.__('line')
      };
      return words[word] ?? trans.__('step');
    },

    progress(unit: string, step: string, total: string | null): string {
      return total === null
        ? trans.__('%1 %2', unit, step)
        : trans.__('%1 %2 of %3', unit, step, total);
    },

    saved(agoMs: number): string {
      return trans.__('saved %1 ago', duration(agoMs));
    },

    /** `1st`, `2nd`, `11th`. */
    ordinal(n: number): string {
      const ones = n % 100 > 10 && n % 100 < 14 ? 0 : n % 10;
      return ones === 1
        ? trans.__('%1st', n)
        : ones === 2
          ? trans.__('%1nd', n)
          : ones === 3
            ? trans.__('%1rd', n)
            : trans.__('%1th', n);
    },

    inLine(position: number): string {
      return trans.__('%1 in line', this.ordinal(position));
    },

    /** "10–25 min"; null where no window can be given. */
    window(forecast: IForecast): string | null {
      if (forecast.from_ms == null || forecast.to_ms == null) {
        return null;
      }
      if (forecast.span && forecast.basis !== 'known') {
        return forecast.span;
      }
      const [low, high, unit] = span(forecast.from_ms, forecast.to_ms);
      if (low === 0) {
        return trans.__('under %1 %2', high, unit);
      }
      return low === high
        ? trans.__('about %1 %2', high, unit)
        : trans.__('%1–%2 %3', low, high, unit);
    },

    likely(forecast: IForecast): string {
      const window = this.window(forecast);
      if (window !== null) {
        return trans.__('likely %1', window);
      }
      return forecast.at_latest_ms == null
        ? trans.__('start unknown')
        : trans.__('starts within %1', duration(forecast.at_latest_ms));
    },

    startNowWith(milliGpu: number, workers: number): string {
      return workers > 1
        ? trans.__('Start now with %1 × %2', workers, gpus(milliGpu))
        : trans.__('Start now with %1', gpus(milliGpu));
    },

    /** What is in the way, as what to do about it; empty where somebody is to be asked. */
    unblock(action: string | null | undefined): string {
      return action === 'release'
        ? trans.__('Release it')
        : action === 'pause'
          ? trans.__('Pause it')
          : '';
    },

    startNowTitle(): string {
      return trans.__('The same job goes on with it; curve and log go on.');
    },

    startNowNoMore(job: string, size: string): string {
      return trans.__(
        '%1 would no longer start with %2. It keeps its place in line.',
        job,
        size
      );
    },

    /** ``text`` goes on ("for nlp (its guarantee)"), or is a cause. A stop that is ahead has not begun. */
    stopIn(
      leftMs: number,
      text: string,
      way: string,
      isAhead: boolean
    ): string {
      const left = countdown(leftMs);
      const stop = isAhead
        ? trans.__('Will be stopped in %1 %2.', left, text)
        : trans.__('Is being stopped, in %1 at the latest: %2.', left, text);
      return way ? `${stop} ${way}` : stop;
    },

    /** For what stays as it was written: a count of seconds would be wrong a second later. */
    stopAt(ms: number, text: string, way: string): string {
      const stop = trans.__(
        'Will be stopped at %1 %2.',
        preciseClock(ms),
        text
      );
      return way ? `${stop} ${way}` : stop;
    },

    wayOnPage(): string {
      return trans.__('Its page says how it goes on.');
    },

    attempt(number: number): string {
      return trans.__('attempt %1', number);
    },

    // --- train --------------------------------------------------------------------------------

    openFirst(): string {
      return trans.__('Open a notebook or script first');
    }
  };
}
