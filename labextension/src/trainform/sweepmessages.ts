/** Sentences of a sweep in *Train*, which come with its code. */
import type { ITrainForm } from '../submission/request';
import {
  type IParameter,
  type ISweepDraft,
  type ISweepMistake,
  mostTrials
} from '../submission/sweep';
import type { Messages } from '../text/messages';
import { samplers } from '../text/samplers';

export function sweepWords(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    samplers(): { value: string; label: string }[] {
      return samplers(trans);
    },

    scales(): { value: string; label: string }[] {
      return [
        { value: 'log', label: trans.__('log') },
        { value: 'even', label: trans.__('even') },
        { value: 'choice', label: trans.__('choice') }
      ];
    },

    arguments(): string {
      return trans.__('Arguments that the script takes.');
    },

    whole({ name, values }: IParameter): string {
      return trans.__(
        '%1: whole numbers, %2. Write 0.0 for 0 to have any number between.',
        name,
        values.trim()
      );
    },

    compared(rungs: readonly number[]): string {
      return rungs.length === 0
        ? trans.__('The first step must come before the last.')
        : trans.__(
            'Compared at steps %1: the best third goes on, the others give their GPU up and may be woken.',
            rungs.join(', ')
          );
    },

    asOne(draft: ISweepDraft, form: ITrainForm): string {
      const trials = mostTrials(draft);
      const atOnce = Math.min(Number(draft.atOnce), trials);
      const size =
        form.milliGpu === 0
          ? trans.__('Up to %1 trials run at once.', atOnce)
          : trans.__(
              'Up to %1 trials run at once, each on %2, as far as GPUs are idle.',
              atOnce,
              msg.gpuCount(form.milliGpu * form.workers)
            );
      const hours = draft.gpuHours.trim();
      const most =
        hours !== ''
          ? trans.__(
              'It ends after %1 trials or %2 GPU-h, whichever comes first.',
              trials,
              hours
            )
          : trials < Number(draft.trials)
            ? trans.__(
                'It ends after %1 trials, as many as there are settings.',
                trials
              )
            : trans.__('It ends after %1 trials at most.', trials);
      return `${size} ${most} ${trans.__('In your team’s line the whole sweep counts as one job.')}`;
    },

    mistake({ field, word }: ISweepMistake): string {
      return {
        nothing: trans.__('Try: name at least one parameter and its values.'),
        name: trans.__(
          'Try: “%1” needs a name that the script’s arguments have, as in --lr.',
          word
        ),
        twice: trans.__('Try: %1 is there twice.', word),
        range: trans.__(
          'Try: write the range of %1 as in 0.0001 to 0.1, or choose “choice” for a list.',
          word
        ),
        order: trans.__('Try: the range of %1 must go from low to high.', word),
        positive: trans.__(
          'Try: the range of %1 is drawn by powers, so it begins above 0 and has no step.',
          word
        ),
        choices: trans.__('Try: list values of %1, as in 32, 64, 128.', word),
        metric: trans.__('Metric: name what the script tells, as in accuracy.'),
        trials: trans.__('Trials: a whole number from 1 to 10,000.'),
        gpuHours: trans.__('GPU-hours: from 0.001 to 10,000,000, or nothing.'),
        atOnce: trans.__('At once: a whole number from 1 to 256.'),
        steps: trans.__('Steps: whole numbers, the first before the last.')
      }[field];
    }
  };
}

export type SweepWords = ReturnType<typeof sweepWords>;
