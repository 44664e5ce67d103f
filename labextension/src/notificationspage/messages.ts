/** Sentences of the page of mail and webhook, which come with its code. */
import type { IChannel, IMessage } from './notifications';
import type { Messages } from '../text/messages';

export function toldMessages(msg: Messages) {
  const { trans } = msg;
  const abouts: Record<string, string> = {
    idle: trans.__('my notebook is idle'),
    start: trans.__('a job starts, or it is my turn'),
    preempt: trans.__('a job is stopped or lost'),
    finish: trans.__('a job, sweep or pipeline is over'),
    week: trans.__('the week in sums')
  };
  const fates: Record<string, string> = {
    waiting: trans.__('on its way'),
    sent: trans.__('sent'),
    failed: trans.__('not taken'),
    dropped: trans.__('dropped: too many')
  };
  return {
    ...msg,

    alone(): string {
      return trans.__(
        'Of your own notebooks and jobs alone. Nobody but you sees this choice.'
      );
    },

    /** `To ann@example.org: my notebook is idle; the week in sums.` */
    channel({ about, to, why_not: whyNot }: IChannel): string {
      if (whyNot) {
        return whyNot;
      }
      return about.length === 0
        ? trans.__('Nothing is chosen.')
        : trans.__(
            'To %1: %2.',
            to,
            about.map(each => abouts[each] ?? each).join('; ')
          );
    },

    fate({ fate, said }: IMessage): string {
      return [fates[fate] ?? fate, said].filter(Boolean).join(': ');
    },

    none(): string {
      return trans.__('No message yet.');
    },

    howToChoose(): string {
      return trans.__('To choose: gpucommons notify set, in a terminal.');
    }
  };
}
