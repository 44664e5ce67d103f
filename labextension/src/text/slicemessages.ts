/**
 * Sentences about the slice of this notebook: what it is, and when it is taken back.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { clock, countdown, duration, gib } from './format';
import type { IStopped } from '../server/stoppedserver';
import type { Keeps } from '../server/lostkernels';

export function sliceMessages(trans: TranslationBundle) {
  return {
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
        watched: trans.__('who stays over their memory is stopped'),
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

    chooseGpu(): string {
      return trans.__('Restart it with a GPU from the hub…');
    },

    activeTimer([length, unit]: readonly [string, string]): string {
      return trans
        .__('Active · returned after %1 idle %2', length, unit)
        .trimEnd();
    },

    idleSoFar(
      idleMs: number,
      [length, unit]: readonly [string, string]
    ): string {
      return trans
        .__(
          'Idle %1 · returned after %2 idle %3',
          duration(idleMs),
          length,
          unit
        )
        .trimEnd();
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

    keptAnyway([length, unit]: readonly [string, string]): string {
      return trans
        .__(
          'Your GPU stays yours: it is returned only after %1 idle %2 anyway.',
          length,
          unit
        )
        .replace('  ', ' ');
    },

    returnedIdle(idle: string, reclaimed?: boolean): string {
      const text = trans.__(
        'Your notebook was idle for %1: its server was stopped and the GPU returned.',
        idle
      );
      return reclaimed
        ? `${trans.__('An admin asked for your GPU.')} ${text}`
        : text;
    },

    stoppedBy(why: string): string {
      return trans.__('Your notebook was stopped: %1.', why);
    },

    // --- a server that is gone ----------------------------------------------------------------

    /** As the hub tells it, or where it has not been asked; without its full stop. */
    stoppedTitle(gone?: IStopped): string {
      return gone?.why
        ? gone.why.replace(/\.$/, '')
        : trans.__('Your notebook server does not run');
    },

    /** What was kept and what was not, of the server and in this tab. */
    ofStop({ kept, lost }: IStopped, unsaved: number): string[] {
      return [
        ...kept.map(line => trans.__('Kept: %1', line)),
        ...lost.map(line => trans.__('Not kept: %1', line)),
        ...(unsaved > 0 ? [this.unsavedHere(unsaved)] : [])
      ];
    },

    unsavedHere(count: number): string {
      return trans._n(
        'One document has changes that are not saved: only this tab has them. Leave it open and save when the server is back.',
        '%1 documents have changes that are not saved: only this tab has them. Leave it open and save when the server is back.',
        count
      );
    },

    startsHere(): string {
      return trans.__(
        'This tab goes on when the server is back. If it waits in line, or nothing starts:'
      );
    },

    startAgain(): string {
      return trans.__('Start again');
    },

    notNow(): string {
      return trans.__('Not now');
    },

    serverStopped(): string {
      return trans.__('Server stopped: start again');
    },

    returned(): string {
      return trans.__('The GPU was returned.');
    },

    // --- idle notification (A8) ---------------------------------------------------------------

    idleFor(length: string): string {
      return trans.__('Idle %1.', length);
    },

    idleWarning(returned: string): string {
      return trans.__('GPU is returned when idle for %1.', returned);
    },

    releaseWarning(returned: string): string {
      return trans.__('Restarts without its GPU when idle for %1.', returned);
    },

    reclaimWarning(returnsMs: number, keeps: boolean): string {
      const at = clock(returnsMs);
      return keeps
        ? trans.__(
            'An admin asks for your GPU: it goes back at %1 unless you keep it or run something.',
            at
          )
        : trans.__(
            'An admin asks for your GPU: it goes back at %1 unless you run something.',
            at
          );
    },

    keep(minutes: number): string {
      return trans.__('Keep %1 min', minutes);
    },

    /** Of the notice's last minutes, in the status bar. */
    returnedIn(ms: number): string {
      return trans.__('returned in %1', countdown(ms));
    },

    keepMore(minutes: number, left: number): string {
      return trans.__('Keep %1 min (%2 left)', minutes, left);
    },

    keepsLeft(left: number): string {
      return trans._n('It can be kept once.', 'It can be kept %1 times.', left);
    },

    dropToCpu(): string {
      return trans.__('Drop to CPU');
    },

    hibernate(): string {
      return trans.__('Hibernate');
    },

    /** Behind a warning; short, as notifications are cut off. */
    atReturn(keeps: Keeps): string {
      switch (keeps) {
        case 'kernels':
          return trans.__('Kernels that can be saved are kept.');
        case 'variables':
          return trans.__('Variables that can be stored are kept.');
        case 'nothing':
          return trans.__('Otherwise its variables are lost.');
      }
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
    }
  };
}
