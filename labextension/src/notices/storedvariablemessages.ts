/** Sentences about variables of earlier servers, which come with what offers them. */
import type { ILoaded, ILost, IStored } from '../server/storedvariables';
import { dayAndMonth } from '../text/format';
import type { Messages } from '../text/messages';

export function storedMessages(msg: Messages) {
  const { trans } = msg;
  return {
    ...msg,

    storedText({ path, kept, lost }: IStored): string {
      const of = path ? ` ${trans.__('of %1', path)}` : '';
      return trans._n(
        '%2 of %1 variable%3 was kept when your server was stopped.',
        '%2 of %1 variables%3 were kept when your server was stopped.',
        kept.length + lost.length,
        kept.length,
        of
      );
    },

    notStored({ name, because }: ILost): string {
      return trans.__('%1 could not be kept: %2', name, because);
    },

    loadExplained({ path, until_ms }: IStored): string {
      const where = path
        ? trans.__('They are loaded into the kernel of %1', path)
        : trans.__('They are loaded into the kernel of the current notebook');
      return trans.__(
        '%1, where it has none of that name. That runs code which was stored with them. They are kept until %2.',
        where,
        dayAndMonth(until_ms)
      );
    },

    loadStored(): string {
      return trans.__('Load');
    },

    noKernelForStored(): string {
      return trans.__('Open a notebook with a kernel first.');
    },

    loadedText({ loaded }: ILoaded): string {
      return trans._n(
        '%1 variable was loaded.',
        '%1 variables were loaded.',
        loaded.length
      );
    },

    storedNotLoaded({ name, because }: ILost): string {
      return trans.__('%1 was not loaded: %2', name, because);
    },

    loadEnded(because: string): string {
      return trans.__('Not loaded: %1', because);
    },

    nothingStored(): string {
      return trans.__('No variables of earlier servers are kept.');
    }
  };
}
