/**
 * Every sentence of the panel, in one place: translated, and asserted literally by the UI tests.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import {
  baseName,
  bytes,
  clock,
  countdown,
  decimalGpus,
  duration,
  gib,
  gpuHours,
  gpus,
  ordinal,
  span
} from './format';
import { IForecast, IJob } from './tokens';

export type Messages = ReturnType<typeof messages>;

export function messages(trans: TranslationBundle) {
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

    dataAge(ms: number): string {
      return trans.__('Data from %1 ago.', duration(ms));
    },

    noScheduler(): string {
      return trans.__(
        'This server was not started by a hub with GPU Commons: there are no teams and no jobs here.'
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

    // --- my GPU -------------------------------------------------------------------------------

    ofKind(kind: string): string {
      return trans.__('of %1', kind);
    },

    isolation(mode: string): string {
      const words: Record<string, string> = {
        hardware: trans.__('the hardware keeps your memory apart'),
        kernel: trans.__('the driver stops every slice at its memory'),
        driver: trans.__('memory limited for each process'),
        cooperative: trans.__('memory limited for programs that cooperate'),
        watched: trans.__('memory watched: who stays over is stopped'),
        none: trans.__('nothing limits memory')
      };
      const shared = mode === 'hardware' ? '' : trans.__('; compute is shared');
      return trans.__('Isolation %1: %2', mode, (words[mode] ?? '?') + shared);
    },

    contention(word: string | undefined): string {
      const words: Record<string, string> = {
        alone: trans.__('Nobody else on this GPU'),
        low: trans.__('Neighbours: low use'),
        medium: trans.__('Neighbours: medium use'),
        high: trans.__('Neighbours: high use, you may be slower')
      };
      return words[word ?? ''] ?? '';
    },

    stopsIn(ms: number): string {
      return trans.__('In %1 a process is stopped.', countdown(ms));
    },

    memoryOf(usedMib: number, limitMib: number): [string, string] {
      return [gib(usedMib), trans.__('of %1 GiB', gib(limitMib))];
    },

    overMemory(limitMib: number): string {
      return trans.__('over your %1 GiB', gib(limitMib));
    },

    computeLabel(percent: number | null): string {
      return percent === null
        ? trans.__('Compute: no reading')
        : trans.__('Compute, last 5 min, now %1 percent', percent);
    },

    noGpuData(): string {
      return trans.__('no GPU data');
    },

    noGpuDataWhy(): string {
      return trans.__(
        'Nothing reads the GPU here. Your notebook works; it is not counted as idle.'
      );
    },

    cpuOnly(): string {
      return trans.__('CPU only');
    },

    noGpu(): string {
      return trans.__('This notebook has no GPU.');
    },

    cpuOnlyWhy(): string {
      return trans.__(
        'This notebook has no GPU. Training below can still use your team’s.'
      );
    },

    activeTimer(idleAfterMin: number): string {
      return trans.__(
        'Active · returned after %1 idle min',
        String(idleAfterMin)
      );
    },

    idleTimer(idleMs: number, leftMs: number): string {
      return trans.__(
        'Idle %1 · GPU is returned in %2',
        duration(idleMs),
        countdown(leftMs)
      );
    },

    keptTimer(untilMs: number): string {
      return trans.__('Kept until %1', clock(untilMs));
    },

    // --- idle notification (A8) ---------------------------------------------------------------

    idleWarning(idle: string, returned: string): string {
      return trans.__('Idle %1. GPU is returned at %2.', idle, returned);
    },

    keep(minutes: number): string {
      return trans.__('Keep %1 min', minutes);
    },

    keepsLeft(left: number): string {
      return trans._n('%1 left', '%1 left', left);
    },

    dropToCpu(): string {
      return trans.__('Drop to CPU');
    },

    dropBody(): string {
      return trans.__(
        'The notebook server restarts without its GPU: variables are lost, files are kept.'
      );
    },

    restart(): string {
      return trans.__('Restart without GPU');
    },

    restarting(): string {
      return trans.__('Restarting without GPU');
    },

    reloads(): string {
      return trans.__(
        'This page loads again by itself when the notebook server is back.'
      );
    },

    reload(): string {
      return trans.__('Reload Now');
    },

    turnIntoJob(): string {
      return trans.__('Turn into job');
    },

    // --- teams --------------------------------------------------------------------------------

    usedOfFixed(used: number, fixed: number): string {
      return trans.__('%1 of %2 fixed', decimalGpus(used), decimalGpus(fixed));
    },

    usedOf(used: number, guaranteed: number): string {
      return trans.__('%1 of %2', decimalGpus(used), decimalGpus(guaranteed));
    },

    plusBorrowed(milliGpu: number): string {
      return trans.__('+ %1 borrowed', decimalGpus(milliGpu));
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

    /** The short word for a job's state. */
    state(job: IJob): string {
      const words: Record<string, string> = {
        queued: trans.__('waiting'),
        nominated: trans.__('next, making room'),
        admitted: trans.__('starting'),
        starting: trans.__('starting'),
        running: trans.__('running'),
        preempting: trans.__('stopping for others'),
        pausing: trans.__('pausing'),
        paused: trans.__('paused'),
        cancelling: trans.__('cancelling'),
        cancelled: trans.__('cancelled'),
        succeeded: trans.__('finished'),
        failed: trans.__('failed')
      };
      return words[job.state] ?? job.state;
    },

    holdClass(job: IJob): string | null {
      const words: Record<string, string> = {
        guaranteed: trans.__('guaranteed'),
        'over-quota': trans.__('borrowed, can be stopped')
      };
      return words[job.hold_class ?? ''] ?? null;
    },

    /** What a job counts. */
    unit(word: string): string {
      return word === 'epoch' ? trans.__('epoch') : trans.__('step');
    },

    progress(unit: string, step: string, total: string | null): string {
      return total === null
        ? trans.__('%1 %2', unit, step)
        : trans.__('%1 %2 of %3', unit, step, total);
    },

    saved(agoMs: number): string {
      return trans.__('saved %1 ago', duration(agoMs));
    },

    notSaved(): string {
      return trans.__('nothing saved yet');
    },

    inLine(position: number): string {
      return trans.__('%1 in line', ordinal(position));
    },

    /** "10–25 min"; null where no window can be given. */
    window(forecast: IForecast): string | null {
      if (forecast.from_ms == null || forecast.to_ms == null) {
        return null;
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
      return window === null
        ? trans.__('start unknown')
        : trans.__('likely %1', window);
    },

    /** A sentence: the window and how right such were, or why there is none. */
    likelyInFull(forecast: IForecast): string {
      const window = this.window(forecast);
      if (window === null) {
        const why: Record<string, string> = {
          history: trans.__(
            'too little is known about how long the work in its way runs'
          ),
          'not-in-sight': trans.__('not in sight within two weeks'),
          calibration: trans.__('past estimates were wrong too often')
        };
        return trans.__(
          'Likely start unknown: %1.',
          why[forecast.unknown ?? ''] ?? ''
        );
      }
      return forecast.right_of_ten == null
        ? trans.__('Likely %1.', window)
        : trans.__(
            'Likely %1 (past estimates right %2 of 10).',
            window,
            forecast.right_of_ten
          );
    },

    startNowWith(milliGpu: number, workers: number): string {
      return workers > 1
        ? trans.__('Start now with %1 × %2', workers, gpus(milliGpu))
        : trans.__('Start now with %1', gpus(milliGpu));
    },

    stopIn(leftMs: number, text: string): string {
      return trans.__(
        'Will be stopped in %1 %2. Saving…',
        countdown(leftMs),
        text
      );
    },

    stoppedAt(unit: string, step: string): string {
      return trans.__('Stopped at %1 %2.', unit, step);
    },

    attempt(number: number): string {
      return trans.__('attempt %1', number);
    },

    waited(ms: number): string {
      return trans.__('waited %1', duration(ms));
    },

    gpuH(milliGpuS: number): string {
      return trans.__('%1 GPU-h', gpuHours(milliGpuS));
    },

    lost(milliGpuS: number): string {
      return milliGpuS === 0
        ? trans.__('nothing lost to stops')
        : trans.__('%1 lost to stops', gpuHours(milliGpuS));
    },

    // --- train --------------------------------------------------------------------------------

    thisFile(path: string, savedMs: number | null): string {
      const which =
        savedMs === null
          ? baseName(path)
          : trans.__('saved %1', clock(savedMs));
      return path.endsWith('.ipynb')
        ? trans.__('This notebook (%1)', which)
        : trans.__('This script (%1)', which);
    },

    sameAs(job: string): string {
      return trans.__('The same as %1', job);
    },

    files(count: number, sizeBytes: number): string {
      return trans._n('%1 file, %2', '%1 files, %2', count, bytes(sizeBytes));
    },

    submitted(name: string): string {
      return trans.__('%1 is in line.', name);
    }
  };
}
