/** Sentences of the *Train* form, which come with its code. */
import { baseName, bytes, clock } from '../format';
import type { Messages } from '../messages';
import { IMistake, isWhole, ITrainForm, NumberName, range } from '../request';

export type TrainMessages = ReturnType<typeof trainMessages>;

export function trainMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    thisFile(path: string, savedMs: number | null): string {
      const which =
        savedMs === null
          ? baseName(path)
          : trans.__('saved %1', clock(savedMs));
      return path.endsWith('.ipynb')
        ? trans.__('This notebook (%1)', which)
        : trans.__('This script (%1)', which);
    },

    number(name: NumberName): string {
      return {
        workers: trans.__('Workers'),
        minWorkers: trans.__('At least'),
        cpus: trans.__('CPU cores'),
        memoryGib: trans.__('Memory, GiB')
      }[name];
    },

    mistake({ field, line }: IMistake, form: ITrainForm): string {
      if (field === 'arguments') {
        return trans.__('Close every quotation mark.');
      }
      if (field === 'secrets') {
        return trans.__(
          '“%1” is no secret’s name: write VARIABLE=name, never a value.',
          line
        );
      }
      const words: [string, number, number] = [
        this.number(field),
        ...range(field, form)
      ];
      return isWhole(field)
        ? trans.__('%1: a whole number from %2 to %3.', ...words)
        : trans.__('%1: a number from %2 to %3.', ...words);
    },

    sameAs(job: string): string {
      return trans.__('The same as %1', job);
    },

    files(count: number, sizeBytes: number): string {
      return trans._n('%1 file, %2', '%1 files, %2', count, bytes(sizeBytes));
    },

    savedIsLost(step: string): string {
      return trans.__(
        'Starts from the beginning: %1, saved before, is not used.',
        step
      );
    }
  };
}
