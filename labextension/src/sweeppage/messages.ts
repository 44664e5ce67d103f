/** Sentences of the page of sweeps, which come with its code. */
import type { IRung, ISweep, ITrial } from '../server/sweeps';
import { clock, gpuHours, gpus, shortNumber } from '../text/format';
import type { Messages } from '../text/messages';
import { samplers } from '../text/samplers';

export type SweepMessages = ReturnType<typeof sweepMessages>;

export function sweepMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    none(): string {
      return trans.__(
        'No sweeps yet. Choose Sweep in Train, or in a terminal: gpucommons sweep submit'
      );
    },

    sweepState({ ended_ms: ended, running, waiting, begun }: ISweep): string {
      if (ended != null) {
        return trans.__('over');
      }
      return running > 0
        ? trans.__('running')
        : waiting > 0 || begun === 0
          ? trans.__('waiting')
          : trans.__('paused');
    },

    /** Above the table of what a sweep tries; what one `train.map` sends are jobs. */
    children({ kind }: ISweep): string {
      return kind === 'map' ? trans.__('Jobs') : trans.__('Trials');
    },

    child({ kind }: ISweep): string {
      return kind === 'map' ? trans.__('Job') : trans.__('Trial');
    },

    /** `36 of 40 trials`. */
    begun({ kind, begun, trials_of: of }: ISweep): string {
      return kind === 'map'
        ? trans.__('%1 of %2 jobs', begun, of)
        : trans.__('%1 of %2 trials', begun, of);
    },

    counts(sweep: ISweep): string {
      const { running, waiting, paused, done, failed } = sweep;
      const others =
        sweep.ended_ms == null
          ? 0
          : sweep.begun - running - waiting - paused - done - failed;
      const parts: [number, string][] = [
        [running, trans.__('%1 running', running)],
        [waiting, trans.__('%1 waiting', waiting)],
        [paused, trans.__('%1 paused', paused)],
        [done, trans.__('%1 finished', done)],
        [failed, trans.__('%1 failed', failed)],
        [others, trans.__('%1 ended with the sweep', others)]
      ];
      const words = parts
        .filter(([count]) => count > 0)
        .map(([, word]) => word);
      return words.join(', ') || trans.__('none begun');
    },

    /** Who draws; of a map nobody does. */
    sampler({ kind, sampler }: ISweep): string {
      const known = samplers(trans).find(({ value }) => value === sampler);
      return kind === 'map' ? trans.__('a list') : (known?.label ?? sampler);
    },

    held(milliGpu: number): string {
      const number = gpus(milliGpu);
      return number === '1' ? trans.__('1 GPU') : trans.__('%1 GPUs', number);
    },

    perTrial(milliGpu: number, most: number): string {
      const each = gpus(milliGpu);
      return most > 0
        ? trans.__(
            '%1 for each, as many as are idle, at most %2 at once',
            each,
            most
          )
        : trans.__('%1 for each', each);
    },

    used({ milli_gpu_s: used, budget_milli_gpu_s: budget }: ISweep): string {
      return budget == null
        ? trans.__('%1 GPU-hours', gpuHours(used))
        : trans.__('%1 of %2 GPU-hours', gpuHours(used), gpuHours(budget));
    },

    ends({ until_ms: until, ended_ms: ended, made_ms: made }: ISweep): string {
      if (ended != null) {
        return trans.__('from %1 to %2', clock(made), clock(ended));
      }
      return until == null
        ? trans.__('since %1', clock(made))
        : trans.__(
            'since %1, ends at %2 at the latest',
            clock(made),
            clock(until)
          );
    },

    best(sweep: ISweep, trial: ITrial): string {
      return trans.__(
        'Best: trial %1, %2 %3',
        trial.number,
        sweep.metric,
        shortNumber(trial.best ?? 0)
      );
    },

    atStep(trial: ITrial): string {
      return trans.__('at step %1', trial.best_step);
    },

    betterIs({ metric, direction }: ISweep): string {
      return direction === 'maximize'
        ? trans.__('%1, higher is better', metric)
        : trans.__('%1, lower is better', metric);
    },

    /** What the line of the best so far leaves out. */
    gaps(sweep: ISweep): string[] {
      const { length } = sweep.improvements ?? [];
      return [
        sweep.improvements_thinned
          ? trans.__(
              'It improved more than %1 times: steps that change the line least are left out.',
              length
            )
          : '',
        sweep.improvements_begun_late
          ? trans.__(
              'An earlier release began it: until then only each trial’s best is known.'
            )
          : ''
      ].filter(each => each !== '');
    },

    trialState({ state, rungs, step }: ITrial): string {
      return (
        {
          drawn: trans.__('next in line'),
          waiting:
            step > 0
              ? trans.__('waits for a GPU, was at step %1', step)
              : trans.__('waits for a GPU'),
          live: trans.__('running'),
          held: trans.__('paused at rung %1', rungs),
          paused: trans.__('paused by a person'),
          done: trans.__('finished'),
          failed: trans.__('failed'),
          ended: trans.__('ended with the sweep')
        }[state] ?? state
      );
    },

    explains(name: string, share: number | undefined): string {
      return share === undefined
        ? name
        : `${name}\n${trans.__('explains %1 %', Math.round(100 * share))}`;
    },

    rung(number: number, { step }: IRung): string {
      return trans.__('rung %1 · step %2', number, step);
    },

    wentOn({ went_on: went, came }: IRung): string {
      return trans.__('%1 of %2 went on', went, came);
    },

    shown(shown: number, all: number): string {
      return trans.__('%1 of %2, best first', shown, all);
    },

    asOne({ team, kind }: ISweep): string {
      return kind === 'map'
        ? trans.__(
            'For fair share the whole map counts as one job of %1.',
            team
          )
        : trans.__(
            'For fair share the whole sweep counts as one job of %1.',
            team
          );
    },

    runWith(count: number): string {
      return count > 1
        ? trans.__('Run it with %1 GPUs…', count)
        : trans.__('Run it as a job…');
    },

    chartWords() {
      return {
        trial: trans.__('trial'),
        value: trans.__('value'),
        gpus: trans.__('GPUs')
      };
    },

    noCharts(): string {
      return trans.__(
        'Nothing here draws charts: the numbers stand in the table.'
      );
    },

    /** Of a minute it is known what was held a minute or two later. */
    noGpus({ ended_ms: ended, milli_gpu_s: held, running }: ISweep): string {
      if (held > 0 || running > 0) {
        return trans.__('Each minute is drawn a minute or two after its end.');
      }
      return ended == null
        ? trans.__('It holds no GPU yet.')
        : trans.__('It held no GPU.');
    },

    stopTitle(name: string): string {
      return trans.__('Stop %1?', name);
    },

    stopBody(): string {
      return trans.__(
        'Its jobs that are not over are cancelled. What they have told stays, and more budget lets it go on with new trials.'
      );
    },

    addNothing({ budget_milli_gpu_s: budget }: ISweep): string {
      return budget == null
        ? trans.__('Nothing was added. Name at least one trial, or cancel.')
        : trans.__(
            'Nothing was added. Name trials or GPU-hours above 0, or cancel.'
          );
    },

    addWrong({ budget_milli_gpu_s: budget }: ISweep): string {
      return budget == null
        ? trans.__('Nothing was added. Trials are a whole number up to 10,000.')
        : trans.__(
            'Nothing was added. Trials are a whole number up to 10,000, GPU-hours any number up to 10,000,000.'
          );
    },

    addTitle(name: string): string {
      return trans.__('Add to the budget of %1', name);
    }
  };
}
